// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One pass over the function in program order. Commands between two barriers may overlap in time, so a slice of the arena is in use from the
// barrier before its first use to the barrier after its last.
#include "compiler/emit/schedule.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "compiler/emit/registers.h"
#include "compiler/ir/control.h"
#include "compiler/ir/read.h"
#include "heddle/ext/library.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
namespace mf = heddle::module_format;

namespace heddle::emit {
namespace {

constexpr uint32_t whole = 0xFFFFFFFF;  // BindingRef: from 0, or up to the end
constexpr uint32_t slice_alignment = 64;
enum Access : uint32_t { read = 1, write = 2 };

class Scheduler {
 public:
  Scheduler(func::FuncOp function, const ProgramTarget& target, Globals& globals, bool initializer)
      : function_(function), top_(function), places_(function), target_(target), globals_(globals), initializer_(initializer) {}

  FailureOr<std::unique_ptr<mf::ProgramT>> run() {
    for (const SlotTarget& slot : target_) program_->families.push_back(slot.family);
    if (failed(bind_symbols()) || failed(verify_checks()) || failed(check_given_extents()) || failed(find_parts())) return failure();
    check_extents();
    if (failed(find_aliases())) return failure();
    result_dims();
    add_fills();
    if (failed(add_ops())) return failure();
    if (!globals_.mistake().empty()) return function_.emitError(globals_.mistake());
    finish();
    return std::move(program_);
  }

 private:
  LogicalResult add_ops() {
    Block& block = function_.getBody().front();
    auto return_op = llvm::cast<func::ReturnOp>(block.getTerminator());
    assign_results(return_op);
    for (Operation& op : block) {
      for (auto symbol : unread_) {
        if (tx::mentions(&op, symbol)) return op.emitError("has an extent s") << symbol << ", which is read later";
      }
      if (auto dispatch = llvm::dyn_cast<tx::DispatchOp>(op)) {
        if (failed(add_dispatch(dispatch))) return failure();
      } else if (auto custom = llvm::dyn_cast<tx::CustomOp>(op)) {
        if (failed(add_operation(custom))) return failure();
      } else if (auto branch = llvm::dyn_cast<tx::IfOp>(op)) {
        if (failed(add_branch(branch))) return failure();
      } else if (auto loop = llvm::dyn_cast<tx::LoopOp>(op)) {
        if (failed(add_loop(loop))) return failure();
      } else if (auto read = llvm::dyn_cast<tx::ReadOp>(op)) {
        if (failed(add_read(read))) return failure();
      } else if (auto transfer = llvm::dyn_cast<tx::TransferOp>(op)) {
        add_transfer(transfer);
      } else if (!tx::has_same_bytes(&op) && !llvm::isa<tx::ConcatOp, tx::ConstantOp, tx::ParameterOp, func::ReturnOp>(op)) {
        return op.emitError("is in no dispatch");
      }
    }
    return copy_results(return_op);
  }

  LogicalResult bind_symbols() {
    uint32_t count = tx::given_symbol_count(function_);
    llvm::SmallSet<unsigned, 4> bound;
    for (BlockArgument argument : function_.getArguments()) {
      for (auto [dim, extent] : llvm::enumerate(tx::extents(llvm::cast<RankedTensorType>(argument.getType())))) {
        auto symbol = llvm::dyn_cast<AffineSymbolExpr>(extent);
        if (!symbol) continue;
        const std::optional<uint32_t> place = places_.arguments[argument.getArgNumber()];
        if (!place) return function_.emitError("has state of dynamic size");
        registers_.bind_symbol(symbol.getPosition(), *place, dim);
        if (bound.insert(symbol.getPosition()).second)
          sources_[symbol.getPosition()] = {argument.getArgNumber(), static_cast<unsigned>(dim)};
      }
    }
    if (bound.size() != count) return function_.emitError("has ") << count << " symbols, of which arguments give " << bound.size();
    auto defined = function_->getAttrOfType<ArrayAttr>(tx::defined_symbols_attr);
    llvm::DenseMap<unsigned, unsigned> read_by;  // the number of the op that reads a symbol
    unsigned reads = 0;
    for (auto read : function_.getOps<tx::ReadOp>()) {
      ++reads;
      for (int64_t symbol : read.getSymbols()) {
        if (symbol >= 0 && !read_by.try_emplace(static_cast<unsigned>(symbol), reads).second)
          return read.emitError("reads symbol ") << symbol << " a second time";
      }
    }
    for (Attribute each : defined ? defined.getValue() : ArrayRef<Attribute>()) {
      auto definition = llvm::dyn_cast<DictionaryAttr>(each);
      auto kind = definition ? definition.getAs<StringAttr>("kind") : StringAttr();
      if (kind && kind.getValue() == "read") {
        auto read = read_by.find(count);
        if (read == read_by.end()) return function_.emitError("has symbol ") << count << ", which no tx.read gives";
        bind_read(count++, read->second);
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

  // What depends on the value relies on its range.
  void bind_read(unsigned symbol, unsigned read) {
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

  // Checked early, since values that depend on the quotient are computed before other checks.
  void check_divisor(StringRef kind, AffineExpr dividend, AffineExpr divisor) {
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

  LogicalResult verify_checks() {
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

  // First: if they are not equal, errors that follow from it would mislead the caller.
  LogicalResult check_given_extents() {
    Attribute attribute = function_->getAttr(tx::extent_checks_attr);
    auto pairs = llvm::dyn_cast_or_null<ArrayAttr>(attribute);
    if (attribute && !pairs) return function_.emitError("has a malformed ") << tx::extent_checks_attr;
    uint32_t symbols = symbol_count(&function_.getBody().front().front());
    for (Attribute each : pairs ? pairs.getValue() : ArrayRef<Attribute>()) {
      auto pair = llvm::dyn_cast<DictionaryAttr>(each);
      auto map = pair ? pair.getAs<AffineMapAttr>("extents") : AffineMapAttr();
      auto who = pair ? pair.getAs<StringAttr>("who") : StringAttr();
      if (!map || !who || map.getValue().getNumDims() != 0 || map.getValue().getNumSymbols() > symbols ||
          map.getValue().getNumResults() != 2)
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

  // A computed extent is negative if, for example, a window does not fit into the input. Kernels rely on extents that are not negative, and two
  // negative ones give a size that looks valid, so the program refuses them before anything else. It also refuses a product of symbols above 64
  // bits, which is possible if inputs are empty, because it computes the product.
  void check_extents() {
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

  // A part of a table whose length is symbolic must be inside the table.
  void check_inside(tx::SliceOp slice) {
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

  // Results of regions that are parts of a concat outside of regions: where they start, and how long they are, in bytes.
  struct Part {
    Value concat;
    AffineExpr start, length;  // length: null if rows have a pitch; up to the end
  };

  // Regions store the parts of a concat outside of regions in its memory: as ranges of bytes or, with a pitch, as parts of its rows.
  LogicalResult find_parts() {
    for (auto concat : function_.getOps<tx::ConcatOp>()) {
      const RankedTensorType whole = tx::tensor(concat.getResult());
      const bool has_ranges = tx::has_ranges(concat), has_rows = concat.getAxis() + 1 == static_cast<uint64_t>(whole.getRank());
      AffineExpr start = getAffineConstantExpr(0, concat.getContext());
      for (Value part : concat.getInputs()) {
        const RankedTensorType type = tx::tensor(part);
        auto maker = part.getDefiningOp<tx::DispatchOp>();
        const bool is_range = maker && !maker.getPitchAttr();
        const bool is_stored = maker && part.hasOneUse() && !maker.getTied() &&
                               (is_range ? has_ranges : has_rows && maker.getPitchAttr().getInt() == whole.getShape().back());
        if (!is_stored) return concat.emitError("is outside of regions, and no region can store part '") << type << "' in its memory";
        AffineExpr bytes = (is_range ? tx::element_count(type) : tx::extents(type).back()) * element_bytes(type);
        parts_[part] = {concat.getResult(), start, is_range ? bytes : AffineExpr()};
        start = start + bytes;
      }
    }
    for (auto region : function_.getOps<tx::DispatchOp>()) {
      if (region.getPitchAttr() && !parts_.contains(region.getResult(0)))
        return region.emitError("has a `pitch`, and its result is not a part of a tx.concat outside of regions");
    }
    return success();
  }

  static int64_t element_bytes(RankedTensorType type) { return (type.getElementTypeBitWidth() + 7) / 8; }

  void check(AffineExpr value, std::string refusal, int64_t least = 0) {
    check_condition(registers_.at_most(registers_.literal(least), registers_.value_of(value)), std::move(refusal));
  }

  void check_condition(uint32_t condition, std::string refusal) {
    const auto message = static_cast<uint32_t>(program_->messages.size());
    if (registers_.read_of(condition) != 0) {
      registers_.check(condition, message);
    } else {
      command(mf::Op::Check, message, condition);
    }
    program_->messages.push_back(std::move(refusal));
  }

  // A message has at most 65,535 bytes, and a model's names may be long. They are shortened between characters.
  static StringRef shortened(StringRef name) {
    constexpr size_t enough_bytes = 200;
    if (name.size() <= enough_bytes) return name;
    size_t end = enough_bytes;
    while (end > 0 && (static_cast<uint8_t>(name[end]) & 0xC0) == 0x80) --end;
    return name.take_front(end);
  }

  // "dimension 2 (in the compiler's order) of the result of 'node' has the extent s0 - 5", the mistake, and where the extents come from.
  std::string refusal(Operation* op, StringRef value, unsigned dim, AffineExpr extent, StringRef mistake) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    auto location = llvm::dyn_cast<NameLoc>(op->getLoc());
    stream << "dimension " << dim << " (in the compiler's order) of " << value << " '"
           << (location ? shortened(location.getName()) : op->getName().getStringRef()) << "' has the extent " << extent << mistake;
    name_symbols(stream, extent);
    return text;
  }

  // "; s2 is floordiv(s0, s1), s0 is dimension 0 ('batch') of input 'x', s1 is dimension 1 ('sequence') of input 'x'"
  void name_symbols(llvm::raw_string_ostream& stream, ArrayRef<AffineExpr> extents) {
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

  void result_dims() {
    if (initializer_) return;
    for (auto [index, type] : llvm::enumerate(function_.getFunctionType().getResults())) {
      for (auto [dim, extent] : llvm::enumerate(tx::extents(llvm::cast<RankedTensorType>(type)))) {
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

  void command(mf::Op op, uint32_t a, uint32_t b = 0, uint32_t c = 0) { commands_.emplace_back(static_cast<uint16_t>(op), 0, a, b, c); }

  uint32_t add_value(mf::ValueKind kind, uint32_t index) {
    auto [it, is_new] = values_.try_emplace({static_cast<uint32_t>(kind), index}, program_->values.size());
    if (is_new) program_->values.emplace_back(kind, index);
    return it->second;
  }

  // The value that a function result is written to: its own result, its state, the derived global of its name, or what a branch or a loop names.
  uint32_t result_value(unsigned index) {
    if (nested_) return nested_->results[index];
    if (!initializer_ && !places_.results[index]) return locate(alias_of_result_.find(index)->second);
    if (!initializer_) return add_value(mf::ValueKind::Result, *places_.results[index]);
    auto name = llvm::cast<StringAttr>(function_.getResultAttr(index, tx::name_attr));
    auto type = llvm::cast<RankedTensorType>(function_.getFunctionType().getResult(index));
    uint32_t slot = slot_index(target_, tx::affinity_of(function_.getResultAttrDict(index)));
    return add_value(mf::ValueKind::Global, globals_.derived(name, slot, tx::byte_size(type)));
  }

  // The results that take the memory of arguments.
  LogicalResult find_aliases() {
    if (initializer_) return success();
    for (BlockArgument argument : function_.getArguments()) {
      const std::optional<unsigned> result = tx::alias_of(argument);
      if (!result && tx::is_state(argument)) return function_.emitError("has state without ") << tx::alias_attr;
      if (!result) continue;
      auto name = [](DictionaryAttr attributes) { return attributes ? attributes.getAs<StringAttr>(tx::name_attr) : StringAttr(); };
      DictionaryAttr of_argument = function_.getArgAttrDict(argument.getArgNumber());
      if (*result >= own_result_count(function_) || function_.getResultTypes()[*result] != argument.getType() ||
          !alias_of_result_.try_emplace(*result, argument).second)
        return function_.emitError("has a malformed ") << tx::alias_attr;
      DictionaryAttr of_result = function_.getResultAttrDict(*result);
      if (tx::affinity_of(of_argument) != tx::affinity_of(of_result)) {
        return function_.emitError("input ") << name(of_argument) << " is on " << tx::affinity_of(of_argument) << " and output "
                                             << name(of_result) << " on " << tx::affinity_of(of_result)
                                             << ", so that they cannot have the same memory; place both on one slot, or remove "
                                             << (tx::is_state(argument) ? "--state" : "--alias");
      }
    }
    return success();
  }

  // Whether the ops that make the value may write it to the memory of the argument: all readers of the argument come before, or it overwrites the
  // argument element by element.
  static bool may_take_place(Value value, BlockArgument argument) {
    SmallVector<Operation*> makers;
    auto concat = value.getDefiningOp<tx::ConcatOp>();
    for (Value part : concat ? ValueRange(concat.getInputs()) : ValueRange(value)) {
      if (!part.getDefiningOp()) return false;
      makers.push_back(part.getDefiningOp());
    }
    SmallVector<Value> views = {argument};
    while (!views.empty()) {
      for (Operation* user : views.pop_back_val().getUsers()) {
        if (tx::has_same_bytes(user)) {
          views.push_back(user->getResult(0));
          continue;
        }
        auto region = llvm::dyn_cast<tx::DispatchOp>(user);
        const std::optional<int64_t> overwritten = region ? region.overwritten() : std::nullopt;
        const bool in_place =
            overwritten && makers.size() == 1 && makers[0] == user && tx::storage_of(region.getInputs()[*overwritten]) == argument;
        if (!in_place && !llvm::all_of(makers, [user](Operation* maker) { return user->isBeforeInBlock(maker); })) return false;
      }
    }
    return true;
  }

  // Whether the extents of a result of the function are known when its storage is written: if they are read later, another value has the bytes first.
  bool knows_extents(Value result, Value storage) {
    unsigned needed = 0;
    for (AffineExpr extent : tx::extents(tx::tensor(result))) needed = std::max(needed, registers_.read_of(registers_.value_of(extent)));
    if (needed == 0 || nested_) return true;
    auto reads = function_.getOps<tx::ReadOp>();
    Operation* last = *std::next(reads.begin(), needed - 1);
    auto concat = storage.getDefiningOp<tx::ConcatOp>();
    return llvm::all_of(concat ? ValueRange(concat.getInputs()) : ValueRange(storage), [last](Value part) {
      Operation* maker = part.getDefiningOp();
      return maker && last->isBeforeInBlock(maker);
    });
  }

  // A barrier, if the value has the memory of an argument that was read since the last one.
  void wait_for_readers(uint32_t value) {
    const mf::Value described = program_->values[value];
    for (auto [result, argument] : alias_of_result_) {
      const bool is_it = !nested_ && places_.results[result]
                             ? described.kind() == mf::ValueKind::Result && described.index() == *places_.results[result]
                             : value == locate(argument);
      if (is_it && read_.contains(locate(argument))) return add_barrier();
    }
  }

  // A dispatch, an operation or a transfer writes a result of the function in place; a value from elsewhere, or requested twice, is copied.
  void assign_results(func::ReturnOp return_op) {
    for (auto [index, operand] : llvm::enumerate(return_op.getOperands())) {
      Value storage = tx::storage_of(operand);
      if (index == own_result_count(function_)) note_checks(return_op.getOperands().drop_front(index));
      if (index >= own_result_count(function_)) break;
      auto alias = alias_of_result_.find(static_cast<unsigned>(index));
      if (alias != alias_of_result_.end() && !may_take_place(storage, alias->second)) continue;
      if (!knows_extents(operand, storage)) continue;
      if (llvm::isa_and_nonnull<tx::ConcatOp, tx::DispatchOp, tx::TransferOp, tx::CustomOp, tx::IfOp, tx::LoopOp>(
              storage.getDefiningOp()) &&
          !location_.contains(storage))
        location_[storage] = result_value(index);
    }
  }

  // Verdicts are written in place too; several checks of one value share one.
  void note_checks(ValueRange verdicts) {
    auto checks = function_->getAttrOfType<ArrayAttr>(tx::checks_attr);
    unsigned first = own_result_count(function_);
    if (!program_->checks) program_->checks = std::make_unique<mf::KernelChecksT>();
    first_check_ = static_cast<uint32_t>(program_->checks->all.size());
    for (auto [position, value, attribute] : llvm::enumerate(verdicts, checks)) {
      const uint32_t i = first_check_ + static_cast<uint32_t>(position);
      auto check = llvm::cast<DictionaryAttr>(attribute);
      auto [verdict, is_first] = verdicts_.try_emplace(value, i);
      Value storage = tx::storage_of(value);
      // A value that is also read elsewhere is copied: a program does not read verdicts.
      bool is_alone = llvm::all_of(value.getUsers(), [](Operation* user) { return llvm::isa<func::ReturnOp>(user); });
      if (is_first && storage == value && is_alone && llvm::isa_and_nonnull<tx::DispatchOp>(storage.getDefiningOp()) &&
          !location_.contains(storage))
        location_[storage] = add_value(mf::ValueKind::Verdict, i);
      bool is_index = check.getAs<StringAttr>("kind").getValue() == "index";
      uint32_t slot = slot_index(target_, tx::affinity_of(function_.getResultAttrDict(first + static_cast<unsigned>(position))));
      uint32_t limit = registers_.value_of(check.getAs<AffineMapAttr>("limit").getValue().getResult(0));
      std::string message = "node '" + shortened(check.getAs<StringAttr>("node").getValue()).str() + "'";
      if (auto where = check.getAs<StringAttr>("where")) message += ", " + where.str();
      if (!is_index) message += ": an integer is divided by zero";
      program_->checks->all.emplace_back(verdict->second, slot, is_index ? mf::CheckKind::Index : mf::CheckKind::Divisor, limit,
                                         static_cast<uint32_t>(program_->messages.size()));
      program_->messages.push_back(std::move(message));
    }
  }

  LogicalResult copy_results(func::ReturnOp return_op) {
    SmallVector<std::pair<uint32_t, uint32_t>> last;  // copies to memory of arguments
    for (auto [index, operand] : llvm::enumerate(return_op.getOperands())) {
      bool is_own = index < own_result_count(function_);
      if (!is_own && verdicts_.lookup(operand) != first_check_ + index - own_result_count(function_)) continue;  // for another check
      uint32_t target = is_own ? result_value(index) : add_value(mf::ValueKind::Verdict, verdicts_.lookup(operand));
      Value storage = tx::storage_of(operand);
      uint32_t source = locate(storage);
      if (source == target) continue;
      auto alias = is_own ? alias_of_result_.find(static_cast<unsigned>(index)) : alias_of_result_.end();
      const bool is_aliased = alias != alias_of_result_.end();
      if (is_aliased && alias->second == storage) continue;  // the argument itself
      if (is_aliased && llvm::isa<BlockArgument>(storage) && tx::alias_of(storage)) {
        // Another argument whose memory is overwritten, perhaps before this one's.
        const uint32_t kept = add_transient(llvm::cast<RankedTensorType>(storage.getType()));
        add_copy(source, kept);
        source = kept;
      } else if (!is_aliased) {
        synchronize(source);
        add_copy(source, target);
        continue;
      }
      last.emplace_back(source, target);
    }
    // After the last reader of each argument.
    if (!last.empty()) add_barrier();
    for (auto [source, target] : last) add_copy(source, target);
    return success();
  }

  void add_copy(uint32_t source, uint32_t target) {
    add_copy(mf::BindingRef(source, whole, whole, read), mf::BindingRef(target, whole, whole, write));
  }

  void add_copy(const mf::BindingRef& source, const mf::BindingRef& target) {
    program_->copies.emplace_back(source, target);
    note_use(source.value());
    note_use(target.value());
    command(mf::Op::Copy, program_->copies.size() - 1);
  }

  // The runtime knows the devices of both ends: a transfer within one device is an ordinary copy there.
  void add_transfer(tx::TransferOp transfer) {
    uint32_t source = locate(tx::storage_of(transfer.getInput()));
    synchronize(source);
    uint32_t target = locate(transfer.getResult());
    wait_for_readers(target);
    add_copy(source, target);
    read_.insert(source);
    written_.insert(target);
  }

  // The initializer first fills the globals that the functions requested, and then those that it needs itself before they are read.
  void add_fills() {
    while (initializer_ && program_->fills.size() < globals_.fills().size()) {
      const Globals::Fill& fill = globals_.fills()[program_->fills.size()];
      uint32_t target = add_value(mf::ValueKind::Global, fill.global);
      program_->fills.emplace_back(mf::BindingRef(target, whole, whole, write), fill.pattern, fill.pattern_bytes, 0);
      written_.insert(target);
      command(mf::Op::Fill, program_->fills.size() - 1);
    }
  }

  // The program value that holds a tensor.
  uint32_t locate(Value storage) {
    if (auto it = location_.find(storage); it != location_.end()) return it->second;
    uint32_t value = 0;
    if (auto argument = llvm::dyn_cast<BlockArgument>(storage)) {
      const std::optional<uint32_t> place = places_.arguments[argument.getArgNumber()];
      value = place ? add_value(mf::ValueKind::Argument, *place) : add_value(mf::ValueKind::Global, state_of(argument));
    } else if (auto parameter = storage.getDefiningOp<tx::ParameterOp>()) {
      value = add_value(mf::ValueKind::Global, globals_.parameter(parameter, slot_of(parameter), initializer_));
    } else if (auto constant = storage.getDefiningOp<tx::ConstantOp>()) {
      value = add_value(mf::ValueKind::Global, globals_.constant(constant, slot_of(constant), initializer_));
      add_fills();
    } else {
      value = add_transient(llvm::cast<RankedTensorType>(storage.getType()));
    }
    location_[storage] = value;
    return value;
  }

  uint32_t state_of(BlockArgument argument) {
    DictionaryAttr attributes = function_.getArgAttrDict(argument.getArgNumber());
    auto name = attributes.getAs<StringAttr>(tx::name_attr);
    return globals_.state(function_.getName(), name ? name.str() : "input" + std::to_string(argument.getArgNumber()),
                          slot_index(target_, tx::affinity_of(attributes)), tx::byte_size(tx::tensor(argument)));
  }

  uint32_t add_transient(RankedTensorType type) {
    AffineExpr size = tx::element_count(type) * element_bytes(type);
    uint32_t index = program_->transients.size();
    program_->transients.emplace_back(registers_.value_of(size), slice_alignment, 0, 0);
    uses_.emplace_back(commands_.size(), commands_.size());
    return add_value(mf::ValueKind::Transient, index);
  }

  // The program value of a constant or a parameter.
  uint32_t slot_of(Operation* leaf) const {
    auto slot = leaf->getAttrOfType<StringAttr>(tx::slot_attr);
    return slot_index(target_, slot ? slot.getValue() : StringRef(tx::default_slot));
  }

  void note_use(uint32_t value) {
    const mf::Value& described = program_->values[value];
    if (described.kind() == mf::ValueKind::Transient) uses_[described.index()].second = commands_.size();
  }

  // Emits a barrier if the value was written since the last one.
  void synchronize(uint32_t value) {
    if (written_.contains(value)) add_barrier();
  }

  void add_barrier() {
    command(mf::Op::Barrier, 0);
    barriers_.push_back(commands_.size() - 1);
    written_.clear();
    read_.clear();
  }

  // Bindings of an op that reads and writes tensors, after a barrier if one is needed.
  void bind(mf::DispatchSiteT& site, ValueRange inputs, ValueRange outputs) {
    for (Value input : inputs) {
      uint32_t value = locate(tx::storage_of(input));
      synchronize(value);
      site.bindings.emplace_back(value, whole, whole, read);
      note_type(input, site);
    }
    for (Value output : outputs) {
      uint32_t start = whole, length = whole;
      if (auto part = parts_.find(output); part != parts_.end()) {
        location_[output] = locate(part->second.concat);
        start = start_of(part->second);
        if (part->second.length) length = registers_.value_of(part->second.length);
      }
      if (read_.contains(locate(output))) add_barrier();
      wait_for_readers(locate(output));
      site.bindings.emplace_back(locate(output), start, length, write);
      note_type(output, site);
    }
    for (const mf::BindingRef& binding : site.bindings) {
      note_use(binding.value());
      (binding.access() == write ? written_ : read_).insert(binding.value());
    }
  }

  // A concat without rows has no bytes, so its parts start at 0.
  uint32_t start_of(const Part& part) {
    const RankedTensorType type = tx::tensor(part.concat);
    if (part.start == getAffineConstantExpr(0, type.getContext())) return whole;
    const uint32_t start = registers_.value_of(part.start);
    AffineExpr size = tx::element_count(type) * element_bytes(type);
    return part.length || tx::is_never_zero(size) ? start : registers_.least(start, registers_.value_of(size));
  }

  static void note_pitch(tx::DispatchOp dispatch, mf::DispatchSiteT& site) {
    if (!dispatch.getPitchAttr()) return;
    site.binding_pitches = std::make_unique<mf::PitchesT>();
    site.binding_pitches->all.assign(dispatch.getInputs().size(), 0);
    site.binding_pitches->all.push_back(dispatch.getPitchAttr().getInt());
  }

  // A result is in the memory of the operand that it is tied to.
  LogicalResult take_places(tx::DispatchOp dispatch) {
    for (auto [result, operand] : llvm::enumerate(dispatch.getTied().value_or(ArrayRef<int64_t>()))) {
      if (operand < 0) continue;
      Value value = dispatch.getInputs()[operand];
      if (!tx::dies_with(dispatch, value))
        return dispatch.emitError("overwrites operand ")
               << operand << ", which no region on its slot makes, or which is read later; remove `tied`, or read it earlier";
      if (!tx::is_read_in_place(dispatch.getBody().getArgument(static_cast<unsigned>(operand))))
        return dispatch.emitError("overwrites operand ")
               << operand << ", but reads elements other than the one that it overwrites; remove `tied`";
      if (const std::optional<unsigned> alias = tx::alias_of(tx::storage_of(value))) {
        auto place = location_.find(dispatch.getResult(static_cast<unsigned>(result)));
        if (place == location_.end() || place->second != result_value(*alias))
          return dispatch.emitError("overwrites operand ") << operand << ", whose memory is for result " << *alias << "; remove `tied`";
        continue;
      }
      location_[dispatch.getResult(static_cast<unsigned>(result))] = locate(tx::storage_of(value));
    }
    return success();
  }

  // The index of the slot that the op names, or none.
  template <typename OpT>
  std::optional<uint32_t> slot_of_op(OpT op) {
    uint32_t slot = slot_index(target_, op.getSlot().value_or(""));
    if (target_[slot].name == op.getSlot()) return slot;
    op.emitError("is on no slot of the module");
    return std::nullopt;
  }

  LogicalResult add_operation(tx::CustomOp custom) {
    auto slot = slot_of_op(custom);
    if (!slot) return failure();
    auto site = std::make_unique<mf::DispatchSiteT>();
    site->slot = *slot;
    site->name = function_.getName().str() + ".custom." + std::to_string(operations_++) + "." + custom.getName().str();
    if (auto name = llvm::dyn_cast<NameLoc>(custom.getLoc())) site->name += " " + name.getName().str();
    add_operation_of(custom, custom.getDomain(), custom.getName(), custom.getVersion(), custom.getRecord(), *site);
    bind(*site, custom.getInputs(), custom.getOutputs());
    program_->dispatches.push_back(std::move(site));
    command(mf::Op::Dispatch, program_->dispatches.size() - 1);
    return success();
  }

  // The id, the record and the operands of the op.
  void add_operation_of(Operation* op, StringRef domain, StringRef name, uint64_t version, DictionaryAttr record, mf::DispatchSiteT& site) {
    site.operation = std::make_unique<mf::OperationT>();
    site.operation->domain = domain.str();
    site.operation->name = name.str();
    site.operation->version = static_cast<uint32_t>(version);
    site.operation->input_count = op->getNumOperands();
    for (NamedAttribute named : record) site.operation->attributes.push_back(describe(named));  // sorted by name already
    for (Value operand : op->getOperands()) add_operand(operand, site);
    for (Value result : op->getResults()) add_operand(result, site);
  }

  void add_operand(Value value, mf::DispatchSiteT& site) {
    auto type = llvm::cast<RankedTensorType>(value.getType());
    site.operation->operands.emplace_back(tx::element_type_code(type.getElementType()), static_cast<uint32_t>(type.getRank()));
    for (AffineExpr extent : tx::extents(type)) site.constants.push_back(registers_.value_of(extent));
  }

  static std::unique_ptr<mf::OperationAttributeT> describe(NamedAttribute named) {
    auto attribute = std::make_unique<mf::OperationAttributeT>();
    attribute->name = named.getName().str();
    if (auto one = llvm::dyn_cast<IntegerAttr>(named.getValue())) {
      attribute->kind = HEDDLE_ATTRIBUTE_INT;
      attribute->ints = {one.getInt()};
    } else if (auto number = llvm::dyn_cast<FloatAttr>(named.getValue())) {
      attribute->kind = HEDDLE_ATTRIBUTE_FLOAT;
      attribute->floats = {number.getValueAsDouble()};
    } else if (auto text = llvm::dyn_cast<StringAttr>(named.getValue())) {
      attribute->kind = HEDDLE_ATTRIBUTE_STRING;
      attribute->text.assign(text.getValue().bytes_begin(), text.getValue().bytes_end());
    } else if (auto ints = llvm::dyn_cast<DenseI64ArrayAttr>(named.getValue())) {
      attribute->kind = HEDDLE_ATTRIBUTE_INTS;
      attribute->ints.assign(ints.asArrayRef().begin(), ints.asArrayRef().end());
    } else {
      auto floats = llvm::cast<DenseF64ArrayAttr>(named.getValue());
      attribute->kind = HEDDLE_ATTRIBUTE_FLOATS;
      attribute->floats.assign(floats.asArrayRef().begin(), floats.asArrayRef().end());
    }
    return attribute;
  }

  // The range that the last added binding covers.
  static void note_type(Value value, mf::DispatchSiteT& site) {
    auto type = llvm::cast<RankedTensorType>(value.getType());
    site.binding_types.emplace_back(tx::element_type_code(type.getElementType()), type.getRank());
    for (int64_t extent : type.getShape()) site.binding_dims.push_back(ShapedType::isDynamic(extent) ? -1 : extent);
  }

  // Kernels rely on elements to read if they have results to compute: a call without such elements is refused, except for reductions.
  void check_empty_values(tx::DispatchOp dispatch, const targets::KernelPlan& plan) {
    auto look_at = [&](Value value) {
      for (auto [dim, extent] : llvm::enumerate(tx::extents(tx::tensor(value)))) {
        llvm::DenseSet<Value> seen;
        if (tx::static_extent(extent) || tx::is_never_zero(extent) || empties_all(value, extent, plan, seen)) continue;
        if (!checked_.insert(extent - 1).second) continue;
        check(extent, refusal(dispatch, "a value in", static_cast<unsigned>(dim), extent, ", which is 0") + "; give larger inputs", 1);
      }
    };
    for (Value argument : dispatch.getBody().getArguments()) look_at(argument);
    for (Operation& op : dispatch.getBody().front().without_terminator()) {
      for (Value result : op.getResults()) look_at(result);
    }
  }

  // Whether nothing is computed from the value if the extent is 0. `seen`: values that were visited already.
  static bool empties_all(Value value, AffineExpr extent, const targets::KernelPlan& plan, llvm::DenseSet<Value>& seen) {
    if (!seen.insert(value).second) return true;
    return llvm::all_of(value.getUsers(), [&](Operation* user) {
      // An empty sum is 0, an empty maximum is the smallest number.
      if (user->hasTrait<OpTrait::IsTerminator>() || llvm::isa<tx::ReduceOp>(user)) return true;
      // Without updates there is nothing to do.
      if (auto scatter = llvm::dyn_cast<tx::ScatterOp>(user); scatter && value != scatter.getInput()) return true;
      if (tx::is_contraction(user) && plan.sums_nothing) return true;
      if (llvm::isa<tx::ConcatOp>(user) && plan.copies_by_operand && tx::stays_in_place(user->getResult(0))) return true;
      return llvm::all_of(user->getResults(), [&](Value result) {
        return tx::is_empty_with(tx::tensor(result), extent) && empties_all(result, extent, plan, seen);
      });
    });
  }

  LogicalResult add_dispatch(tx::DispatchOp dispatch) {
    auto found = slot_of_op(dispatch);
    if (!found) return failure();
    uint32_t slot = *found;
    const Kernels& kernels = *target_[slot].kernels;
    const Kernel& usual = kernels.usual(dispatch);
    auto site = std::make_unique<mf::DispatchSiteT>();
    site->slot = slot;
    site->executable = target_[slot].executable;
    site->name = dispatch.getName().str();
    if (auto name = llvm::dyn_cast<NameLoc>(dispatch.getLoc())) site->name += " " + name.getName().str();
    if (failed(take_places(dispatch))) return failure();
    bind(*site, dispatch.getInputs(), dispatch.getOutputs());
    note_pitch(dispatch, *site);
    check_empty_values(dispatch, usual.plan);
    for (const targets::Limit& limit : usual.plan.limits) {
      if (!checked_.insert(limit.most - limit.value).second) continue;
      check_condition(registers_.at_most(registers_.value_of(limit.value), registers_.literal(limit.most)),
                      "region '" + dispatch.getName().str() + "' has more than " + std::to_string(limit.most) + " " + limit.what +
                          ", more than its kernel can hold; give smaller inputs");
    }
    for (uint32_t symbol = 0; symbol < usual.symbol_count; ++symbol) {
      site->constants.push_back(registers_.value_of(getAffineSymbolExpr(symbol, dispatch.getContext())));
    }
    for (const Candidate& each : kernels.candidates(dispatch)) {
      auto candidate = std::make_unique<mf::CandidateT>();
      candidate->entry = each.kernel;
      for (const targets::Guard& guard : each.guards) {
        uint32_t value = guard.value ? registers_.value_of(guard.value) : registers_.compute_units(slot);
        candidate->guards.emplace_back(value, 0, guard.min, guard.max, 1);
      }
      candidate->grid = {registers_.value_of(kernels.all()[each.kernel].plan.workgroups), registers_.literal(1), registers_.literal(1)};
      site->candidates.push_back(std::move(candidate));
    }
    if (tx::OperationAttr other = dispatch.getAlternativeAttr())
      add_operation_of(dispatch, other.getDomain(), other.getName(), other.getVersion(), other.getRecord(), *site);
    program_->dispatches.push_back(std::move(site));
    command(mf::Op::Dispatch, program_->dispatches.size() - 1);
    return success();
  }

  // ---------------------------------------------------------------------------------------------------- branches and loops

  uint32_t new_register() { return program_->register_count++; }

  // The number that a device computed, in a register of its own.
  uint32_t read_number(Value number) {
    const uint32_t value = locate(tx::storage_of(number)), target = new_register();
    add_barrier();
    note_use(value);
    command(mf::Op::ReadScalar, target, value, registers_.literal(0));
    return target;
  }

  // The elements that are extents from here on. What depends on them is computed directly after the last of these reads, in finish().
  LogicalResult add_read(tx::ReadOp read) {
    if (nested_) return read.emitError("is in a branch or a loop");
    const uint32_t value = locate(tx::storage_of(read.getValue()));
    add_barrier();
    note_use(value);
    for (auto [i, symbol] : llvm::enumerate(read.getSymbols())) {
      if (symbol < 0) continue;
      const auto position = static_cast<unsigned>(symbol);
      if (!unread_.remove(position)) return read.emitError("reads symbol ") << symbol << ", which the function does not define as read";
      command(mf::Op::ReadScalar, registers_.value_of(getAffineSymbolExpr(position, read.getContext())), value,
              registers_.literal(static_cast<int64_t>(i * sizeof(int64_t))));
    }
    read_ends_.push_back(commands_.size());
    return success();
  }

  // A jump whose target is set by land().
  size_t jump(mf::Op op, uint32_t condition = 0) {
    command(op, 0, condition);
    return commands_.size() - 1;
  }
  void land(size_t at) {
    const mf::Instruction& from = commands_[at];
    commands_[at] = mf::Instruction(from.op(), 0, static_cast<uint32_t>(commands_.size()), from.b(), from.c());
  }

  // A function in place of a call of it, with its arguments and results in these values.
  LogicalResult add_nested(Operation* op, FlatSymbolRefAttr name, StringRef slot, ArrayRef<uint32_t> arguments,
                           ArrayRef<uint32_t> results) {
    auto function = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, name);
    for (unsigned i = 0; i < function.getNumArguments() + own_result_count(function); ++i) {
      const bool is_argument = i < function.getNumArguments();
      DictionaryAttr attributes = is_argument ? function.getArgAttrDict(i) : function.getResultAttrDict(i - function.getNumArguments());
      if (StringRef other = tx::affinity_of(attributes); other != slot)
        return op->emitError("is on ") << slot << ", and a value of " << name << " on " << other << "; place all of it on one slot";
    }
    const Nested nested{results};
    const auto kept = std::make_tuple(function_, nested_, std::exchange(alias_of_result_, llvm::DenseMap<unsigned, BlockArgument>()),
                                      checked_, first_check_);
    function_ = function;
    nested_ = &nested;
    for (auto [argument, value] : llvm::zip_equal(function.getArguments(), arguments)) location_[argument] = value;
    bool is_good = succeeded(verify_checks()) && succeeded(find_parts());
    if (is_good) {
      check_extents();
      is_good = succeeded(find_aliases()) && succeeded(add_ops());
    }
    std::tie(function_, nested_, alias_of_result_, checked_, first_check_) = kept;
    return success(is_good);
  }

  SmallVector<uint32_t> locate_all(ValueRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return locate(tx::storage_of(value)); });
  }

  // Each branch is a piece of its own, which is the same whenever it is taken.
  LogicalResult add_branch(tx::IfOp branch) {
    if (!slot_of_op(branch)) return failure();
    const SmallVector<uint32_t> inputs = locate_all(branch.getInputs()), results = locate_all(branch.getOutputs());
    for (uint32_t result : results) wait_for_readers(result);
    const size_t taken = jump(mf::Op::BranchIf, read_number(branch.getCondition()));
    auto add_case = [&](FlatSymbolRefAttr function) {
      if (failed(add_nested(branch, function, *branch.getSlot(), inputs, results))) return failure();
      add_barrier();
      command(mf::Op::Submit, 0);
      return success();
    };
    if (failed(add_case(branch.getElseFunctionAttr()))) return failure();
    const size_t over = jump(mf::Op::Branch);
    land(taken);
    if (failed(add_case(branch.getThenFunctionAttr()))) return failure();
    land(over);
    return success();
  }

  // A slice of a value that a loop goes along: the value, the slice's own memory, and its range in the value.
  struct Slice {
    uint32_t whole, own, offset, bytes;
  };

  // The memory of a loop does not grow with its steps: carried values stay where they are, and slices are copied from and to their place.
  LogicalResult add_loop(tx::LoopOp loop) {
    if (!slot_of_op(loop)) return failure();
    const size_t carried_count = loop.getInit().size(), scanned_count = loop.getScanned().size();
    const SmallVector<uint32_t> carried = locate_all(loop.getOutputs().take_front(carried_count));
    for (auto [init, target] : llvm::zip_equal(loop.getInit(), carried)) {
      const uint32_t source = locate(tx::storage_of(init));
      wait_for_readers(target);
      synchronize(source);
      add_copy(source, target);
      read_.insert(source);
      written_.insert(target);
    }
    SmallVector<uint32_t> wholes = locate_all(loop.getScanned());
    for (uint32_t stacked : locate_all(loop.getOutputs().drop_front(carried_count))) {
      wait_for_readers(stacked);
      wholes.push_back(stacked);
    }
    const SmallVector<uint32_t> inputs = locate_all(loop.getInputs());
    const uint32_t zero = registers_.literal(0), one = registers_.literal(1);
    std::optional<uint32_t> steps, goes_on;
    if (loop.getCount()) steps = registers_.value_of(loop.getCount()->getResult(0));
    if (loop.getTrips()) steps = read_number(loop.getTrips());
    if (loop.getCondition()) goes_on = read_number(loop.getCondition());
    if (loop.getConditional() && !goes_on) command(mf::Op::Move, *(goes_on = new_register()), one);
    const uint32_t step = new_register(), is_over = new_register();
    command(mf::Op::Move, step, zero);
    add_barrier();
    command(mf::Op::Submit, 0);

    const uint32_t begin = commands_.size();
    SmallVector<size_t> exits;
    if (steps) {
      command(mf::Op::LessEqual, is_over, *steps, step);
      exits.push_back(jump(mf::Op::BranchIf, is_over));
    }
    if (goes_on) {
      command(mf::Op::Equal, is_over, *goes_on, zero);
      exits.push_back(jump(mf::Op::BranchIf, is_over));
    }
    auto body = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(loop, loop.getBodyAttr());
    std::optional<uint32_t> place_from_end;
    SmallVector<Slice> slices;
    for (auto [i, whole_value] : llvm::enumerate(wholes)) {
      const unsigned position = static_cast<unsigned>(i < scanned_count ? carried_count + i : i - scanned_count);
      auto type = llvm::cast<RankedTensorType>(i < scanned_count
                                                   ? body.getArgumentTypes()[position]
                                                   : body.getResultTypes()[position + carried_count + (loop.getConditional() ? 1 : 0)]);
      uint32_t place = step;
      if (loop.goes_back(i)) {
        if (!place_from_end) {
          place_from_end = new_register();
          command(mf::Op::Sub, *place_from_end, registers_.value_of(loop.getCount()->getResult(0) - 1), step);
        }
        place = *place_from_end;
      }
      const uint32_t bytes = registers_.value_of(tx::element_count(type) * element_bytes(type)), offset = new_register();
      command(mf::Op::Mul, offset, place, bytes);
      slices.push_back({whole_value, add_transient(type), offset, bytes});
    }
    SmallVector<uint32_t> arguments = carried, results;
    for (const Slice& slice : ArrayRef(slices).take_front(scanned_count)) {
      add_copy(mf::BindingRef(slice.whole, slice.offset, slice.bytes, read), mf::BindingRef(slice.own, whole, whole, write));
      written_.insert(slice.own);
      arguments.push_back(slice.own);
    }
    llvm::append_range(arguments, inputs);
    if (loop.getConditional()) results.push_back(add_transient(llvm::cast<RankedTensorType>(body.getResultTypes().front())));
    llvm::append_range(results, carried);
    for (const Slice& slice : ArrayRef(slices).drop_front(scanned_count)) results.push_back(slice.own);
    if (failed(add_nested(loop, loop.getBodyAttr(), *loop.getSlot(), arguments, results))) return failure();
    add_barrier();
    for (const Slice& slice : ArrayRef(slices).drop_front(scanned_count))
      add_copy(mf::BindingRef(slice.own, whole, whole, read), mf::BindingRef(slice.whole, slice.offset, slice.bytes, write));
    add_barrier();
    if (loop.getConditional()) {
      note_use(results.front());
      command(mf::Op::ReadScalar, *goes_on, results.front(), zero);
    } else {
      command(mf::Op::Submit, 0);
    }
    command(mf::Op::Add, step, step, one);  // behind the piece, so that this is only commands
    command(mf::Op::Branch, begin);
    for (size_t exit : exits) land(exit);
    add_barrier();
    // What is older than the loop, and used in it, is needed until its last step.
    for (auto& [first, last] : uses_) {
      if (first < begin && last >= begin) last = static_cast<uint32_t>(commands_.size() - 1);
    }
    return success();
  }

  // Inserts the code that depends on reads behind these.
  void insert_code_after_reads() {
    if (read_ends_.empty()) return;
    std::vector<mf::Instruction> whole;
    std::vector<uint32_t> moved;  // where each instruction, and the end, is in `whole`
    unsigned read = 0;
    for (size_t i = 0; i <= commands_.size(); ++i) {
      while (read < read_ends_.size() && read_ends_[read] == i) {
        if (const auto* code = registers_.code_after(++read)) whole.insert(whole.end(), code->begin(), code->end());
      }
      moved.push_back(static_cast<uint32_t>(whole.size()));
      if (i < commands_.size()) whole.push_back(commands_[i]);
    }
    for (mf::Instruction& at : whole) {
      if (at.op() == static_cast<uint16_t>(mf::Op::Branch) || at.op() == static_cast<uint16_t>(mf::Op::BranchIf))
        at = mf::Instruction(at.op(), 0, moved[at.a()], at.b(), at.c());
    }
    for (uint32_t& barrier : barriers_) barrier = moved[barrier];
    for (auto& [first, last] : uses_) std::tie(first, last) = std::make_pair(moved[first], moved[last]);
    commands_ = std::move(whole);
  }

  // Prepends the register code, and turns uses into lifetimes in units of barriers.
  void finish() {
    insert_code_after_reads();
    uint32_t shift = registers_.code().size();
    for (mf::Instruction& at : commands_) {
      if (at.op() == static_cast<uint16_t>(mf::Op::Branch) || at.op() == static_cast<uint16_t>(mf::Op::BranchIf))
        at = mf::Instruction(at.op(), 0, at.a() + shift, at.b(), at.c());
    }
    for (auto [transient, use] : llvm::zip(program_->transients, uses_)) {
      auto before = llvm::lower_bound(barriers_, use.first), behind = llvm::upper_bound(barriers_, use.second);
      uint32_t first = before == barriers_.begin() ? 0 : *std::prev(before) + 1;
      uint32_t last = behind == barriers_.end() ? static_cast<uint32_t>(commands_.size()) : *behind;
      transient = mf::Transient(transient.size_register(), transient.alignment(), shift + first, shift + last);
    }
    program_->code = registers_.code();
    program_->code.insert(program_->code.end(), commands_.begin(), commands_.end());
    program_->code.emplace_back(static_cast<uint16_t>(mf::Op::Return), 0, 0, 0, 0);
  }

  // Where the results of a function that is part of another one go.
  struct Nested {
    ArrayRef<uint32_t> results;
  };

  func::FuncOp function_, top_;     // the one whose ops are added; the one that the program is for
  const Nested* nested_ = nullptr;  // of function_; null for top_
  uint32_t first_check_ = 0;        // of function_, among the program's
  const Places places_;             // of top_
  const ProgramTarget& target_;
  Globals& globals_;
  bool initializer_;
  std::unique_ptr<mf::ProgramT> program_ = std::make_unique<mf::ProgramT>();
  Registers registers_{*program_};
  llvm::DenseMap<unsigned, std::pair<unsigned, unsigned>> sources_;  // argument and dimension of each symbol that is given
  llvm::DenseSet<AffineExpr> divisors_;                              // that have a check
  llvm::SmallSetVector<unsigned, 8> unread_;                         // symbols whose reads come later
  std::vector<size_t> read_ends_;                                    // positions in commands_ behind the commands of each read
  std::vector<mf::Instruction> commands_;
  std::vector<uint32_t> barriers_;                   // positions in commands_
  std::vector<std::pair<uint32_t, uint32_t>> uses_;  // of each transient: first and last command
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> values_;
  llvm::DenseMap<Value, uint32_t> location_;
  llvm::DenseMap<Value, Part> parts_;
  llvm::DenseSet<AffineExpr> checked_;
  llvm::DenseMap<Value, uint32_t> verdicts_;  // of the values of checks
  llvm::DenseMap<unsigned, BlockArgument> alias_of_result_;
  uint32_t operations_ = 0;
  llvm::SmallSet<uint32_t, 16> written_, read_;  // values since the last barrier; those that are only read
};

}  // namespace

unsigned own_result_count(func::FuncOp function) {
  auto checks = function->getAttrOfType<ArrayAttr>(tx::checks_attr);
  unsigned all = function.getNumResults();
  return checks ? all - std::min(all, static_cast<unsigned>(checks.size())) : all;
}

Places::Places(func::FuncOp function) {
  llvm::SmallSet<unsigned, 4> kept;
  uint32_t next = 0;
  for (BlockArgument argument : function.getArguments()) {
    const bool is_state = tx::is_state(argument);
    if (const std::optional<unsigned> alias = tx::alias_of(argument); is_state && alias) kept.insert(*alias);
    arguments.push_back(is_state ? std::nullopt : std::optional(next++));
  }
  next = 0;
  for (unsigned i = 0; i < function.getNumResults(); ++i) results.push_back(kept.contains(i) ? std::nullopt : std::optional(next++));
}

uint32_t slot_index(const ProgramTarget& target, StringRef name) {
  auto it = llvm::find_if(target, [&](const SlotTarget& slot) { return slot.name == name; });
  return it == target.end() ? 0 : it - target.begin();
}

FailureOr<std::unique_ptr<mf::ProgramT>> schedule(func::FuncOp function, const ProgramTarget& target, Globals& globals, bool initializer) {
  return Scheduler(function, target, globals, initializer).run();
}

}  // namespace heddle::emit
