// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// N-grams of texts: a scan along the bytes of a text, one line for each phase. Its place is a node of the trie, to which the byte before leads if that
// node's parent is the node where the line is.
#include "compiler/ir/ngrams.h"
#include "compiler/stage/root_stages.h"

using namespace mlir;

namespace heddle::stage {
namespace {

constexpr int64_t nowhere = -2;  // a node that is no parent

// Reads of a step, over the domain's dimensions and the place.
class Reads {
 public:
  Reads(MLIRContext* context, unsigned rank, unsigned symbols) : context_(context), rank_(rank), symbols_(symbols) {}

  // The index of the read. `gathers`: earlier reads, dimensions behind the others.
  unsigned add(Value tensor, ArrayRef<AffineExpr> place, ArrayRef<unsigned> gathers = {}, TypedAttr outside = {}) {
    tensors.push_back(tensor);
    auto map = AffineMap::get(rank_ + static_cast<unsigned>(gathers.size()), symbols_, place, context_);
    accesses.push_back(AccessAttr::get(context_, map, outside, gathers));
    return static_cast<unsigned>(tensors.size()) - 1;
  }

  SmallVector<Value> tensors;
  SmallVector<Attribute> accesses;

 private:
  MLIRContext* context_;
  unsigned rank_, symbols_;
};

// Arithmetic on i32.
class Body {
 public:
  explicit Body(OpBuilder& builder) : builder(builder), at_(builder.getUnknownLoc()) {}

  Value number(int64_t value) { return builder.create<arith::ConstantIntOp>(at_, value, 32); }
  Value is(arith::CmpIPredicate predicate, Value a, Value b) { return builder.create<arith::CmpIOp>(at_, predicate, a, b); }
  Value equal(Value a, Value b) { return is(arith::CmpIPredicate::eq, a, b); }
  Value is_set(Value flag) { return is(arith::CmpIPredicate::ne, flag, number(0)); }
  Value both(Value a, Value b) { return builder.create<arith::AndIOp>(at_, a, b); }
  Value without(Value a, Value b) {
    return both(a, builder.create<arith::XOrIOp>(at_, b, builder.create<arith::ConstantIntOp>(at_, 1, 1)));
  }
  Value add(Value a, Value b) { return builder.create<arith::AddIOp>(at_, a, b); }
  Value select(Value condition, Value a, Value b) { return builder.create<arith::SelectOp>(at_, condition, a, b); }
  Value narrow(Value place) { return builder.create<arith::TruncIOp>(at_, builder.getI32Type(), place); }

  OpBuilder& builder;

 private:
  Location at_;
};

}  // namespace

Operation* RootStages::ngrams(tx::NgramsOp ngrams, TypeRange types) {
  enum : unsigned { row, phase, byte, place, rank = 3 };
  // Accumulators; those from `characters` on are there if they are needed.
  enum : unsigned { at, node, is_in, found, characters, last, last_base, left };
  const Location location = builder_.getUnknownLoc();
  const Exprs extents = tx::extents(tx::tensor(ngrams.getResult())), own = dims(0, rank + 1);
  const auto longest = static_cast<int64_t>(ngrams.getLongest()), least = static_cast<int64_t>(ngrams.getLeast());
  const int64_t most = tx::tensor(ngrams.getNodes()).getDimSize(0) - 1;
  const bool counts_characters = least > 1, has_phases = longest > 1, is_runs = ngrams.getRuns();
  auto operand = [&](Value value) { return operands_.lookup(value); };
  auto constant = [&](int64_t value) { return builder_.getAffineConstantExpr(value); };
  auto dim = [&](unsigned number) { return builder_.getAffineDimExpr(number); };

  Reads reads(context_, rank + 1, symbols_);
  const TypedAttr zero = builder_.getI8IntegerAttr(0);
  SmallVector<unsigned> row_and_byte;
  if (tx::tensor(ngrams.getLetters()).getDimSize(0) > 1) {
    const unsigned before = reads.add(operand(ngrams.getText()), {own[row], own[byte] - 1}, {}, zero);
    row_and_byte.push_back(reads.add(operand(ngrams.getLeads()), {dim(rank + 1)}, {before}));
  }
  row_and_byte.push_back(reads.add(operand(ngrams.getText()), {own[row], own[byte]}, {}, zero));
  const Exprs of_letter = row_and_byte.size() > 1 ? Exprs{dim(rank + 1), dim(rank + 2)} : Exprs{constant(0), dim(rank + 1)};
  const unsigned letter_read = reads.add(operand(ngrams.getLetters()), of_letter, row_and_byte);
  unsigned node_reads[tx::node_columns];
  for (unsigned column : {tx::parent_column, tx::base_column, tx::number_column})
    node_reads[column] = reads.add(operand(ngrams.getNodes()), {own[place], constant(column)});

  const Type i32 = builder_.getI32Type(), i64 = builder_.getI64Type();
  SmallVector<Type> carried = {i64, i32, i32, i32};
  SmallVector<int64_t> initial = {0, nowhere, 0, static_cast<int64_t>(ngrams.getNone())};
  if (counts_characters || has_phases) {
    carried.append(4, i32);
    initial.append({0, nowhere, 0, 0});
  }
  auto op = builder_.create<ScanOp>(location, types, reads.tensors, static_cast<int64_t>(reads.tensors.size()),
                                    builder_.getArrayAttr(reads.accesses), domain(extents, {}), static_cast<int64_t>(byte),
                                    /*reverse=*/false, /*placed=*/true);
  OpBuilder b(context_);
  SmallVector<Value> values;
  b.createBlock(&op.getInit());
  for (auto [value, type] : llvm::zip_equal(initial, carried))
    values.push_back(b.create<arith::ConstantIntOp>(location, value, type.getIntOrFloatBitWidth()));
  b.create<YieldOp>(location, values);

  Block* step = b.createBlock(&op.getStep());
  step->addArguments(SmallVector<Type>(rank + 1, i64), SmallVector<Location>(rank + 1, location));
  SmallVector<Value> read;
  for (Value tensor : reads.tensors) read.push_back(step->addArgument(scalar_type(tx::element_of(tensor)), location));
  SmallVector<Value> sums;
  for (Type type : carried) sums.push_back(step->addArgument(type, location));
  Body m(b);
  // The byte before leads here, or nowhere.
  Value is_here = m.equal(read[node_reads[tx::parent_column]], sums[node]);
  Value here = m.select(is_here, m.narrow(sums[at]), m.number(nowhere));
  Value base = m.select(is_here, read[node_reads[tx::base_column]], m.number(0));
  Value number = m.select(is_here, read[node_reads[tx::number_column]], m.number(static_cast<int64_t>(ngrams.getNone())));
  Value letter = read[letter_read], is_letter = m.is_set(letter), was_letter = m.is_set(sums[is_in]);
  Value one = b.create<arith::AndIOp>(location, letter, m.number(1)), begins_character = m.is_set(one);
  Value begins = is_runs ? m.without(is_letter, was_letter) : m.both(is_letter, begins_character);
  Value goes_on = m.without(is_letter, begins), ends = m.without(was_letter, goes_on);
  SmallVector<Value> next(carried.size());
  if (counts_characters) ends = m.both(ends, m.is(arith::CmpIPredicate::sge, sums[characters], m.number(least)));
  next[found] = m.select(ends, number, m.number(static_cast<int64_t>(ngrams.getNone())));
  Value start = m.number(0), start_base = m.number(0);
  if (next.size() > characters) {
    next[characters] = m.select(begins, m.number(1), m.add(sums[characters], one));
    next[last] = m.select(ends, here, sums[last]);
    next[last_base] = m.select(ends, base, sums[last_base]);
    // Tokens before the next one with which an n-gram begins.
    Value is_first = b.create<arith::CmpIOp>(location, arith::CmpIPredicate::eq, step->getArgument(byte),
                                             b.create<arith::ConstantIntOp>(location, 0, 64));
    Value before = m.select(is_first, m.narrow(step->getArgument(phase)), sums[left]);
    Value fewer = m.select(m.equal(before, m.number(0)), m.number(longest - 1), m.add(before, m.number(-1)));
    next[left] = m.select(ends, fewer, before);
    if (has_phases) {
      Value is_new = m.equal(next[left], m.number(0));
      start = m.select(is_new, start, next[last]);
      start_base = m.select(is_new, start_base, next[last_base]);
    }
  }
  next[node] = m.select(begins, start, m.select(goes_on, here, m.number(nowhere)));
  next[is_in] = b.create<arith::ExtUIOp>(location, i32, is_letter);
  Value symbol = b.create<arith::ShRUIOp>(location, letter, m.number(1));
  symbol = m.select(begins, symbol, m.add(symbol, m.number(static_cast<int64_t>(ngrams.getGoesOn()))));
  Value to = b.create<arith::MinUIOp>(location, m.add(m.select(begins, start_base, base), symbol), m.number(most));
  next[at] = b.create<arith::ExtUIOp>(location, i64, to);
  b.create<YieldOp>(location, next);

  Block* finish = b.createBlock(&op.getFinish());
  finish->addArguments(SmallVector<Type>(rank, i64), SmallVector<Location>(rank, location));
  for (int set = 0; set < 2; ++set) finish->addArguments(carried, SmallVector<Location>(carried.size(), location));
  b.create<YieldOp>(location, ValueRange{finish->getArgument(rank + static_cast<unsigned>(carried.size()) + found)});
  return op;
}

}  // namespace heddle::stage
