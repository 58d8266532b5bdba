// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbols of a program, and what it checks before it relies on them.
#include "compiler/emit/scheduler.h"
#include "compiler/ir/narrow.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace heddle::emit {

void Scheduler::find_reads(func::FuncOp function, SmallVectorImpl<func::FuncOp>& parts) {
  parts.push_back(function);
  auto add_part = [&](Operation* op, FlatSymbolRefAttr name) {
    find_reads(SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, name), parts);
  };
  for (Operation& op : function.getBody().front()) {
    if (auto read = llvm::dyn_cast<tx::ReadOp>(op)) {
      reads_.push_back({&op, {}});
      for (int64_t symbol : read.getSymbols()) {
        if (symbol >= 0) reads_.back().symbols.push_back(static_cast<unsigned>(symbol));
      }
    }
    if (auto branch = llvm::dyn_cast<tx::IfOp>(op)) {
      add_part(branch, branch.getElseFunctionAttr());
      add_part(branch, branch.getThenFunctionAttr());
    }
    auto loop = llvm::dyn_cast<tx::LoopOp>(op);
    if (!loop) continue;
    auto add_symbols = [&](unsigned tx::LoopOp::Varying::* which) {
      if (!loop.getVarying()) return;
      reads_.push_back({&op, {}});
      for (const tx::LoopOp::Varying& one : loop.varying()) reads_.back().symbols.push_back(one.*which);
    };
    add_symbols(&tx::LoopOp::Varying::inside);
    add_part(loop, loop.getBodyAttr());
    add_symbols(&tx::LoopOp::Varying::after);
  }
}

LogicalResult Scheduler::bind_symbols() {
  uint32_t count = tx::given_symbol_count(function_);
  llvm::SmallSet<unsigned, 4> bound;
  for (BlockArgument argument : function_.getArguments()) {
    const RankedTensorType declared = tx::declared_type(argument.getType(), function_.getArgAttrDict(argument.getArgNumber()));
    for (auto [dim, extent] : llvm::enumerate(tx::extents(declared))) {
      auto symbol = llvm::dyn_cast<AffineSymbolExpr>(extent);
      if (!symbol) continue;
      const std::optional<uint32_t> place = places_.arguments[argument.getArgNumber()];
      if (!place) return function_.emitError("has state of dynamic size");
      registers_.bind_symbol(symbol.getPosition(), *place, dim);
      if (bound.insert(symbol.getPosition()).second) sources_[symbol.getPosition()] = {argument.getArgNumber(), static_cast<unsigned>(dim)};
    }
  }
  if (bound.size() != count) return function_.emitError("has ") << count << " symbols, of which arguments give " << bound.size();
  auto defined = function_->getAttrOfType<ArrayAttr>(tx::defined_symbols_attr);
  llvm::DenseMap<unsigned, unsigned> read_by;  // the number of the op that reads a symbol
  SmallVector<func::FuncOp> parts;
  find_reads(function_, parts);
  for (auto [i, read] : llvm::enumerate(reads_)) {
    for (unsigned symbol : read.symbols) {
      if (!read_by.try_emplace(symbol, static_cast<unsigned>(i + 1)).second)
        return read.op->emitError("reads symbol ") << symbol << " a second time";
    }
  }
  for (Attribute each : defined ? defined.getValue() : ArrayRef<Attribute>()) {
    auto definition = llvm::dyn_cast<DictionaryAttr>(each);
    auto kind = definition ? definition.getAs<StringAttr>("kind") : StringAttr();
    if (kind && kind.getValue() == "read") {
      auto read = read_by.find(count);
      if (read != read_by.end()) {
        bind_read(count++, read->second);
        continue;
      }
      // What read it was not needed, as a branch whose results are not.
      if (llvm::any_of(parts, [&](func::FuncOp part) { return tx::mentions(part, count); }))
        return function_.emitError("has symbol ") << count << ", which no tx.read gives";
      const AffineExpr zero = getAffineConstantExpr(0, function_.getContext());
      registers_.define_symbol(count++, mf::Op::Min, zero, zero);
      continue;
    }
    auto of = definition ? definition.getAs<AffineMapAttr>("of") : AffineMapAttr();
    auto op = kind ? llvm::StringSwitch<std::optional<mf::Op>>(kind.getValue())
                         .Case("min", mf::Op::Min)
                         .Case("max", mf::Op::Max)
                         .Case("floordiv", mf::Op::FloorDiv)
                         .Case("mod", mf::Op::Mod)
                         .Default(std::nullopt)
                   : std::nullopt;
    bool is_known =
        op && of && of.getValue().getNumDims() == 0 && of.getValue().getNumResults() == 2 && of.getValue().getNumSymbols() <= count;
    if (!is_known) return function_.emitError("has a malformed entry of ") << tx::defined_symbols_attr;
    AffineExpr left = of.getValue().getResult(0), right = of.getValue().getResult(1);
    if (*op == mf::Op::FloorDiv || *op == mf::Op::Mod) check_divisor(kind.getValue(), left, right);
    registers_.define_symbol(count++, *op, left, right);
  }
  return success();
}

void Scheduler::bind_read(unsigned symbol, unsigned read) {
  const uint32_t value = registers_.read_symbol(symbol, read);
  unread_.insert(symbol);
  auto names = function_->getAttrOfType<ArrayAttr>(tx::symbols_attr);
  const std::string message = shortened(llvm::cast<StringAttr>(names[symbol])).str() +
                              " depends on values of the call, and has to be from 0 to " + std::to_string(tx::largest_read) +
                              "; give inputs for which it is";
  for (uint32_t condition :
       {registers_.at_most(registers_.literal(0), value), registers_.at_most(value, registers_.literal(tx::largest_read))}) {
    registers_.check(condition, static_cast<uint32_t>(program_->messages.size()));
    program_->messages.push_back(message);
  }
}

void Scheduler::check_divisor(StringRef kind, AffineExpr dividend, AffineExpr divisor) {
  if ((tx::never_negative(divisor) && tx::is_never_zero(divisor)) || !divisors_.insert(divisor).second) return;
  std::string message;
  llvm::raw_string_ostream stream(message);
  stream << (kind == "mod" ? "the remainder " : "the quotient ") << kind << "(" << dividend << ", " << divisor
         << ") of extents has the divisor " << divisor << ", which has to be at least 1";
  name_symbols(stream, {dividend, divisor});
  stream << "; give inputs for which it is";
  uint32_t condition = registers_.at_most(registers_.literal(1), registers_.value_of(divisor));
  registers_.check(condition, program_->messages.size());
  program_->messages.push_back(std::move(message));
}

LogicalResult Scheduler::verify_checks() {
  Attribute attribute = function_->getAttr(tx::checks_attr);
  auto checks = llvm::dyn_cast_or_null<ArrayAttr>(attribute);
  if (!attribute) return success();
  if (!checks || checks.size() > function_.getNumResults()) return function_.emitError("has a malformed ") << tx::checks_attr;
  uint32_t symbols = symbol_count(&function_.getBody().front().front());
  for (auto [type, each] : llvm::zip_equal(function_.getResultTypes().take_back(checks.size()), checks)) {
    auto check = llvm::dyn_cast<DictionaryAttr>(each);
    auto limit = check ? check.getAs<AffineMapAttr>("limit") : AffineMapAttr();
    auto kind = check ? check.getAs<StringAttr>("kind") : StringAttr();
    bool is_verdict = type == RankedTensorType::get({}, IntegerType::get(function_.getContext(), 64));
    if (!is_verdict || !limit || limit.getValue().getNumDims() != 0 || limit.getValue().getNumSymbols() > symbols ||
        limit.getValue().getNumResults() != 1 || !kind || (kind.getValue() != "index" && kind.getValue() != "divisor") ||
        !check.getAs<StringAttr>("node")) {
      return function_.emitError("has a malformed entry of ") << tx::checks_attr;
    }
  }
  return success();
}

LogicalResult Scheduler::check_given_extents() {
  Attribute attribute = function_->getAttr(tx::extent_checks_attr);
  auto pairs = llvm::dyn_cast_or_null<ArrayAttr>(attribute);
  if (attribute && !pairs) return function_.emitError("has a malformed ") << tx::extent_checks_attr;
  uint32_t symbols = symbol_count(&function_.getBody().front().front());
  for (Attribute each : pairs ? pairs.getValue() : ArrayRef<Attribute>()) {
    auto pair = llvm::dyn_cast<DictionaryAttr>(each);
    auto map = pair ? pair.getAs<AffineMapAttr>("extents") : AffineMapAttr();
    auto who = pair ? pair.getAs<StringAttr>("who") : StringAttr();
    if (!map || !who || map.getValue().getNumDims() != 0 || map.getValue().getNumSymbols() > symbols || map.getValue().getNumResults() != 2)
      return function_.emitError("has a malformed entry of ") << tx::extent_checks_attr;
    ArrayRef<AffineExpr> extents = map.getValue().getResults();
    std::string message;
    llvm::raw_string_ostream stream(message);
    bool at_least = pair.contains("at_least");
    stream << shortened(who.getValue()) << (at_least ? ": " : ": the extents ") << extents[0]
           << (at_least ? " has to be at least " : " and ") << extents[1] << (at_least ? "" : " have to be equal");
    name_symbols(stream, extents);
    stream << "; give inputs for which " << (at_least ? "it is" : "they are");
    uint32_t left = registers_.value_of(extents[0]), right = registers_.value_of(extents[1]);
    check_condition(at_least ? registers_.at_most(right, left) : registers_.equal(left, right), std::move(message));
  }
  return success();
}

void Scheduler::check_extents() {
  function_.walk([&](Operation* op) {
    for (Value result : op->getResults()) {
      for (auto [dim, extent] : llvm::enumerate(tx::extents(llvm::cast<RankedTensorType>(result.getType())))) {
        bool is_safe = tx::never_negative(extent) && extent.isPureAffine();
        if (is_safe || !checked_.insert(extent).second) continue;
        check(extent, refusal(op, "the result of", dim, extent, ", which is negative") + "; give larger inputs");
      }
    }
    if (auto slice = llvm::dyn_cast<tx::SliceOp>(op)) check_inside(slice);
  });
}

void Scheduler::check_inside(tx::SliceOp slice) {
  SmallVector<AffineExpr> extents = tx::extents(tx::tensor(slice.getInput())), parts = tx::extents(tx::tensor(slice.getResult()));
  for (size_t d = 0; d < parts.size(); ++d) {
    if (!tx::static_extent(extents[d]) || tx::static_extent(parts[d])) continue;
    AffineExpr left = extents[d] - 1 - slice.getStarts()[d] - (parts[d] - 1) * slice.getStrides()[d];
    if (!checked_.insert(left).second) continue;
    std::string text = refusal(slice, "the result of", static_cast<unsigned>(d), parts[d], ", which is more than its input has there") +
                       "; give smaller inputs";
    // The largest part that a message can name.
    const int64_t behind = *tx::static_extent(extents[d]) - 1 - slice.getStarts()[d], stride = slice.getStrides()[d];
    if (stride > 0 && behind >= 0) {
      check_condition(registers_.at_most(registers_.value_of(parts[d]), registers_.literal(behind / stride + 1)), std::move(text));
    } else {
      check(left, std::move(text));
    }
  }
}

void Scheduler::check(AffineExpr value, std::string refusal, int64_t least) {
  check_condition(registers_.at_most(registers_.literal(least), registers_.value_of(value)), std::move(refusal));
}

void Scheduler::check_condition(uint32_t condition, std::string refusal) {
  const auto message = static_cast<uint32_t>(program_->messages.size());
  // A part checks where it begins, so that nothing is checked if it does not run.
  const size_t done = nested_ ? read_ends_.size() : 0;
  if (registers_.read_of(condition) > done) {
    registers_.check(condition, message);
  } else {
    command(mf::Op::Check, message, condition);
  }
  program_->messages.push_back(std::move(refusal));
}

StringRef Scheduler::shortened(StringRef name) {
  constexpr size_t enough_bytes = 200;
  if (name.size() <= enough_bytes) return name;
  size_t end = enough_bytes;
  while (end > 0 && (static_cast<uint8_t>(name[end]) & 0xC0) == 0x80) --end;
  return name.take_front(end);
}

std::string Scheduler::refusal(Operation* op, StringRef value, unsigned dim, AffineExpr extent, StringRef mistake) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto location = llvm::dyn_cast<NameLoc>(op->getLoc());
  stream << "dimension " << dim << " (in the compiler's order) of " << value << " '"
         << (location ? shortened(location.getName()) : op->getName().getStringRef()) << "' has the extent " << extent << mistake;
  name_symbols(stream, extent);
  return text;
}

void Scheduler::name_symbols(llvm::raw_string_ostream& stream, ArrayRef<AffineExpr> extents) {
  auto names = function_->getAttrOfType<ArrayAttr>(tx::symbols_attr);
  auto defined = function_->getAttrOfType<ArrayAttr>(tx::defined_symbols_attr);
  const unsigned given = tx::given_symbol_count(function_);
  llvm::SmallSetVector<unsigned, 4> mentioned;
  auto note = [&](AffineExpr part) {
    auto symbol = llvm::dyn_cast<AffineSymbolExpr>(part);
    if (symbol && names && symbol.getPosition() < names.size()) mentioned.insert(symbol.getPosition());
  };
  for (AffineExpr extent : extents) extent.walk(note);
  constexpr size_t most_named = 100;  // so that a message stays within its limit
  for (size_t i = 0; i < std::min(mentioned.size(), most_named); ++i) {
    const unsigned position = mentioned[i];
    StringRef name = shortened(llvm::cast<StringAttr>(names[position]));
    stream << (i == 0 ? "; " : ", ") << "s" << position << " is ";
    if (position < given) {
      auto [argument, dim] = sources_.lookup(position);
      auto input = top_.getArgAttrOfType<StringAttr>(argument, tx::name_attr);
      stream << "dimension " << dim << " ('" << name << "') of input '" << (input ? shortened(input) : StringRef()) << "'";
    } else {
      stream << name;
      auto of = llvm::cast<DictionaryAttr>(defined[position - given]).getAs<AffineMapAttr>("of");  // none if it is read
      for (AffineExpr part : of ? of.getValue().getResults() : ArrayRef<AffineExpr>()) part.walk(note);
    }
  }
}

void Scheduler::result_dims() {
  if (initializer_) return;
  for (auto [index, type] : llvm::enumerate(function_.getFunctionType().getResults())) {
    const RankedTensorType declared = tx::declared_type(type, function_.getResultAttrDict(static_cast<unsigned>(index)));
    for (auto [dim, extent] : llvm::enumerate(tx::extents(declared))) {
      auto symbol = llvm::dyn_cast<AffineSymbolExpr>(extent);
      if (tx::static_extent(extent) || (symbol && symbol.getPosition() < tx::given_symbol_count(function_)))
        continue;  // the signature has it
      const uint32_t value = registers_.value_of(extent);
      if (registers_.read_of(value) != 0) {
        registers_.set_result_dim(*places_.results[index], static_cast<uint32_t>(dim), value);
      } else {
        command(mf::Op::ResultDim, *places_.results[index], dim, value);
      }
    }
  }
}

}  // namespace heddle::emit
