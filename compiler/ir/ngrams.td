// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finding n-grams in texts.
// Apart from tx.td, since few files of the compiler need to know it (ngrams.h).

#ifndef HEDDLE_COMPILER_IR_NGRAMS_TD
#define HEDDLE_COMPILER_IR_NGRAMS_TD

include "tx.td"

def Tx_NgramsOp : Tx_PureOp<"ngrams", [Tx_OnlyStages]> {
  let summary = "for each byte of each text, the n-gram of a list that ends before it";
  let description = [{text [N, W], of ui8, gives [N, L, W + 1], of i32. Texts end with zeros, as many as there are. L is the most tokens of an
    n-gram: element [n, l, w] is the number of the n-gram of a list that ends before byte w of text n, and that begins with the last token before it
    whose number is l modulo L; it is `none` if there is no such n-gram. So each n-gram of a text is there once.

    A byte is a symbol: letters [R, 256], of i32, has it, twice, plus 1 if the byte begins a character, in row leads[b], where b is the byte before;
    leads is [256], of ui8. Symbol 0 is in no token. A token is as many bytes with other symbols as there are in a row, `least` characters or more;
    or, without `runs`, one character.

    The list is a trie whose nodes are in the table nodes [M, 3], of i32 (Aoe, An Efficient Digital Search Algorithm by Using a Double-Array
    Structure, 1989). Node 0 is the root. From a node, a symbol leads to the node at the place that is the symbol plus column 1 of the node, if
    column 0 there is the number of the node, and to nothing otherwise. If it does not begin a token, `goes_on` is added to the symbol. Column 2 is
    what the result has where a token ends. Column 1 of the root is 0. A place that is outside is clamped.}];
  let arguments = (ins Tx_Tensor:$text, Tx_Tensor:$leads, Tx_Tensor:$letters, Tx_Tensor:$nodes, I64Attr:$longest, I64Attr:$least,
                       I64Attr:$goes_on, I64Attr:$none, UnitAttr:$runs);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = [{
    $text `leads` $leads `letters` $letters `nodes` $nodes `longest` $longest `least` $least `goes_on` $goes_on `none` $none (`runs` $runs^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_COMPILER_IR_NGRAMS_TD
