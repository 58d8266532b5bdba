// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/ir/ngrams.h"

#include <limits>

#define GET_OP_CLASSES
#include "ngrams_op.cpp.inc"

using namespace mlir;

namespace heddle::tx {

LogicalResult NgramsOp::verify() {
  constexpr int64_t bytes = 256, most = std::numeric_limits<int32_t>::max();
  const RankedTensorType text = tensor(getText()), leads = tensor(getLeads()), letters = tensor(getLetters()), nodes = tensor(getNodes());
  const RankedTensorType result = tensor(getResult());
  if (!text.getElementType().isUnsignedInteger(8) || !leads.getElementType().isUnsignedInteger(8))
    return emitOpError("text and leads are not ui8");
  for (RankedTensorType type : {letters, nodes, result}) {
    if (!type.getElementType().isSignlessInteger(32))
      return emitOpError("has a table or a result of ") << type.getElementType() << "; i32 was expected";
  }
  for (RankedTensorType type : {leads, letters, nodes}) {
    if (!type.hasStaticShape()) return emitOpError("has a table with a symbolic extent");
  }
  if (leads.getShape() != ArrayRef<int64_t>{bytes}) return emitOpError("has leads for another number of bytes than 256");
  if (letters.getRank() != 2 || letters.getDimSize(0) < 1 || letters.getDimSize(1) != bytes)
    return emitOpError("has letters that are not [rows, 256]");
  if (nodes.getRank() != 2 || nodes.getDimSize(0) < 1 || nodes.getDimSize(1) != node_columns)
    return emitOpError("has nodes that are not [count, 3]");
  const auto longest = static_cast<int64_t>(getLongest());
  if (longest < 1 || longest > most_ngram_tokens) return emitOpError("has n-grams of ") << longest << " tokens; 1 to 64 are possible";
  for (uint64_t number : {getLeast(), getGoesOn(), getNone()}) {
    if (static_cast<int64_t>(number) < 0 || static_cast<int64_t>(number) > most)
      return emitOpError("has the number ") << static_cast<int64_t>(number);
  }
  if (getLeast() > 1 && !getRuns()) return emitOpError("has tokens of one character, and wants ") << getLeast();
  if (text.getRank() != 2) return emitOpError("needs a text of rank 2");
  const SmallVector<AffineExpr> own = extents(text);
  const SmallVector<AffineExpr> wanted{own[0], getAffineConstantExpr(longest, getContext()), own[1] + 1};
  return extents(result) == wanted ? success() : emitOpError("result extents do not fit");
}

}  // namespace heddle::tx
