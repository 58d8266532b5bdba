// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -verify-diagnostics

// Kernels count on these: a model in the IR's own text that says otherwise would leave its buffers.

func.func @channels(%x: tensor<1x4x4x3xf32>, %w: tensor<1x1x8x8xf32>) -> tensor<1x4x4x8xf32> {
  // expected-error @+1 {{input channels are not 8 x 1}}
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x3xf32>, tensor<1x1x8x8xf32> -> tensor<1x4x4x8xf32>
  return %0 : tensor<1x4x4x8xf32>
}

// -----

func.func @result_channels(%x: tensor<1x4x4x8xf32>, %w: tensor<1x1x8x8xf32>) -> tensor<1x4x4x16xf32> {
  // expected-error @+1 {{result channels are not 8}}
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x8xf32>, tensor<1x1x8x8xf32> -> tensor<1x4x4x16xf32>
  return %0 : tensor<1x4x4x16xf32>
}

// -----

func.func @window(%x: tensor<1x4x4x8xf32>, %w: tensor<3x3x8x8xf32>) -> tensor<1x4x4x8xf32> {
  // expected-error @+1 {{result extent 4 of dimension 1 is above 2, what the window gives}}
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x8xf32>, tensor<3x3x8x8xf32> -> tensor<1x4x4x8xf32>
  return %0 : tensor<1x4x4x8xf32>
}

// -----

func.func @range(%x: tensor<1x4x4x8xf32>, %w: tensor<1x1x8x8xf32>) -> tensor<1x4x4x8xf32> {
  // expected-error @+1 {{kernel, strides, dilations or pads are out of range on dimension 1}}
  %0 = tx.conv %x, %w {strides = array<i64: 1, 0>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x8xf32>, tensor<1x1x8x8xf32> -> tensor<1x4x4x8xf32>
  return %0 : tensor<1x4x4x8xf32>
}

// -----

func.func @packed_filter(%x: tensor<1x4x4x8xf32>, %w: tensor<64xf32>) -> tensor<1x4x4x8xf32> {
  // expected-error @+1 {{packed_shape is not that of the filter}}
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1, packed_shape = array<i64: 1, 1, 8, 8>} : tensor<1x4x4x8xf32>, tensor<64xf32> -> tensor<1x4x4x8xf32>
  return %0 : tensor<1x4x4x8xf32>
}

// -----

func.func @winograd_filter(%x: tensor<1x4x4x8xf32>, %w: tensor<1152xf32>) -> tensor<1x4x4x8xf32> {
  // expected-error @+1 {{packed_shape is not that of the filter}}
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1, packed_shape = array<i64: 3, 3, 8, 8>, winograd} : tensor<1x4x4x8xf32>, tensor<1152xf32> -> tensor<1x4x4x8xf32>
  return %0 : tensor<1x4x4x8xf32>
}

// -----

func.func @winograd_strides(%x: tensor<1x4x4x8xf32>, %w: tensor<2048xf32>) -> tensor<1x2x2x8xf32> {
  // expected-error @+1 {{cannot use winograd: it needs a packed filter of 3 x 3, strides, dilations and groups of 1}}
  %0 = tx.conv %x, %w {strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1, packed_shape = array<i64: 3, 3, 8, 8>, winograd} : tensor<1x4x4x8xf32>, tensor<2048xf32> -> tensor<1x2x2x8xf32>
  return %0 : tensor<1x2x2x8xf32>
}

// -----

func.func @winograd_pack(%w: tensor<1x3x8x8xf32>) -> tensor<2048xf32> {
  // expected-error @+1 {{transforms filters of 3 x 3 and one group for winograd}}
  %0 = tx.pack %w {groups = 1, winograd} : tensor<1x3x8x8xf32> -> tensor<2048xf32>
  return %0 : tensor<2048xf32>
}

// -----

func.func @pack_size(%w: tensor<3x3x8x8xf32>) -> tensor<1000xf32> {
  // expected-error @+1 {{result is not of the packed size}}
  %0 = tx.pack %w {groups = 1} : tensor<3x3x8x8xf32> -> tensor<1000xf32>
  return %0 : tensor<1000xf32>
}

// -----

func.func @pool(%x: tensor<1x4x4x8xf32>) -> tensor<1x2x2x16xf32> {
  // expected-error @+1 {{changes the batch extent or the channels}}
  %0 = tx.pool max %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>} : tensor<1x4x4x8xf32> -> tensor<1x2x2x16xf32>
  return %0 : tensor<1x2x2x16xf32>
}

// -----

func.func @pool_range(%x: tensor<1x4x4x8xf32>) -> tensor<1x2x2x8xf32> {
  // expected-error @+1 {{kernel, strides, dilations or pads are out of range on dimension 0}}
  %0 = tx.pool max %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads_low = array<i64: -1, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>} : tensor<1x4x4x8xf32> -> tensor<1x2x2x8xf32>
  return %0 : tensor<1x2x2x8xf32>
}

// -----

func.func @matmul_result(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x5xf32> {
  // expected-error @+1 {{result extents do not fit}}
  %0 = tx.matmul %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @matmul_batch(%x: tensor<7x2x3xf32>, %w: tensor<6x3x4xf32>) -> tensor<7x2x4xf32> {
  // expected-error @+1 {{batch extents differ on dimension 0}}
  %0 = tx.matmul %x, %w : tensor<7x2x3xf32>, tensor<6x3x4xf32> -> tensor<7x2x4xf32>
  return %0 : tensor<7x2x4xf32>
}

// -----

func.func @matmul_packed(%x: tensor<2x3xf32>, %w: tensor<47xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{packed_shape is not that of the rhs}}
  %0 = tx.matmul %x, %w {packed_shape = array<i64: 3, 4>} : tensor<2x3xf32>, tensor<47xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @concat(%x: tensor<2x3xf32>) -> tensor<2x7xf32> {
  // expected-error @+1 {{inputs do not fill the result}}
  %0 = tx.concat %x, %x {axis = 1} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x7xf32>
  return %0 : tensor<2x7xf32>
}

// -----

func.func @slice(%x: tensor<?xf32, #tx.dims<()[s0] -> (s0)>>) -> tensor<4xf32> attributes {tx.symbols = ["n"]} {
  // expected-error @+1 {{takes a part of dimension 0, whose extent is not static}}
  %0 = tx.slice %x {starts = array<i64: 0>, strides = array<i64: 1>} : tensor<?xf32, #tx.dims<()[s0] -> (s0)>> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @slice_beyond(%x: tensor<?xf32, #tx.dims<()[s0] -> (s0)>>) -> tensor<?xf32, #tx.dims<()[s0] -> (s0 - 1)>> attributes {tx.symbols = ["n"]} {
  // expected-error @+1 {{takes a part of dimension 0, whose extent is not static}}
  %0 = tx.slice %x {starts = array<i64: 2>, strides = array<i64: 1>} : tensor<?xf32, #tx.dims<()[s0] -> (s0)>> -> tensor<?xf32, #tx.dims<()[s0] -> (s0 - 1)>>
  return %0 : tensor<?xf32, #tx.dims<()[s0] -> (s0 - 1)>>
}

// -----

func.func @slice_before(%x: tensor<8xf32>) -> tensor<?xf32, #tx.dims<()[s0] -> (s0)>> attributes {tx.symbols = ["n"]} {
  // expected-error @+1 {{takes a part of dimension 0, whose extent is not static}}
  %0 = tx.slice %x {starts = array<i64: -1>, strides = array<i64: 1>} : tensor<8xf32> -> tensor<?xf32, #tx.dims<()[s0] -> (s0)>>
  return %0 : tensor<?xf32, #tx.dims<()[s0] -> (s0)>>
}

// -----

// Parts that are inside for all symbols.
func.func @slices(%x: tensor<?xf32, #tx.dims<()[s0] -> (s0)>>) -> (tensor<?xf32, #tx.dims<()[s0] -> (s0 - 3)>>, tensor<?xf32, #tx.dims<()[s0] -> (s0 floordiv 2)>>) attributes {tx.symbols = ["n"]} {
  %0 = tx.slice %x {starts = array<i64: 2>, strides = array<i64: 1>} : tensor<?xf32, #tx.dims<()[s0] -> (s0)>> -> tensor<?xf32, #tx.dims<()[s0] -> (s0 - 3)>>
  %1 = tx.slice %x {starts = array<i64: 1>, strides = array<i64: 2>} : tensor<?xf32, #tx.dims<()[s0] -> (s0)>> -> tensor<?xf32, #tx.dims<()[s0] -> (s0 floordiv 2)>>
  return %0, %1 : tensor<?xf32, #tx.dims<()[s0] -> (s0 - 3)>>, tensor<?xf32, #tx.dims<()[s0] -> (s0 floordiv 2)>>
}

// -----

func.func @slice_overflow(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{reads 0 to}}
  %0 = tx.slice %x {starts = array<i64: 0>, strides = array<i64: 6148914691236517205>} : tensor<8xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @transfer_to_itself(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{goes from @a to itself}}
  %0 = tx.transfer %x from "@a" to "@a" : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @transfer_to_no_slot(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{names the slot 'gpu'; use default, or @ and a name}}
  %0 = tx.transfer %x from "default" to "gpu" : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @custom_version(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{has version 0; 1 and above are possible}}
  %0 = tx.custom "test" "Scale" version 0 (%x) {} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @custom_record(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{has the attribute "axis" of 1 : i32; i64, f64, a text, or a list of i64 or f64 is possible}}
  %0 = tx.custom "test" "Scale" version 1 (%x) {axis = 1 : i32} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @custom_domain(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{has no domain or no name}}
  %0 = tx.custom "" "Scale" version 1 (%x) {} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @alternative_record(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{has the attribute "axis" of 1 : i32}}
  %0 = tx.dispatch "Exp"(%x) or <"ai.onnx", "Exp", 13, {axis = 1 : i32}> : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %1 = tx.exp %a : tensor<8xf32>
    tx.yield %1 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// -----

func.func @arg_reduce_kind(%x: tensor<4x8xf32>) -> tensor<4xi64> {
  // expected-error @+1 {{needs kind max or min}}
  %0 = tx.arg_reduce sum %x {axis = 1 : i64} : tensor<4x8xf32> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

func.func @arg_reduce_extents(%x: tensor<4x8xf32>) -> tensor<8xi64> {
  // expected-error @+1 {{result extents do not fit}}
  %0 = tx.arg_reduce max %x {axis = 1 : i64} : tensor<4x8xf32> -> tensor<8xi64>
  return %0 : tensor<8xi64>
}

// -----

func.func @arg_reduce_type(%x: tensor<4x8xf32>) -> tensor<4xi32> {
  // expected-error @+1 {{gives elements of i64, not of 'i32'}}
  %0 = tx.arg_reduce max %x {axis = 1 : i64} : tensor<4x8xf32> -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @cumsum_axis(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{axis 2 is outside of rank 2}}
  %0 = tx.cumsum %x {axis = 2 : i64} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @quantized_of_32_bits(%x: tensor<2x3xf32>, %w: tensor<3x4xi32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{multiplies 'f32' with 'i32', not with integers of 8 or 16 bits}}
  %0 = tx.matmul %x, %w : tensor<2x3xf32>, tensor<3x4xi32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @zero_of_floats(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %z: tensor<4xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{has a zero, but does not multiply floats with integers}}
  %0 = tx.matmul %x, %w, zero %z : tensor<2x3xf32>, tensor<3x4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @zero_of_rows(%x: tensor<2x3xf32>, %w: tensor<3x4xi8>, %z: tensor<3xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{zero is not a tensor of 4 f32, one per column}}
  %0 = tx.matmul %x, %w, zero %z : tensor<2x3xf32>, tensor<3x4xi8>, tensor<3xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @tied_operand(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{ties result 0 to operand 1}}
  %0 = tx.dispatch "exp"(%x) attributes {tied = array<i64: 1>} : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %1 = tx.exp %a : tensor<8xf32>
    tx.yield %1 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// -----

func.func @tied_type(%x: tensor<8xf32>) -> tensor<8xi32> {
  // expected-error @+1 {{ties a result of type 'tensor<8xi32>' to an operand of type 'tensor<8xf32>'}}
  %0 = tx.dispatch "cast"(%x) attributes {tied = array<i64: 0>} : (tensor<8xf32>) -> tensor<8xi32> {
  ^bb0(%a: tensor<8xf32>):
    %1 = tx.cast %a : tensor<8xf32> -> tensor<8xi32>
    tx.yield %1 : tensor<8xi32>
  }
  return %0 : tensor<8xi32>
}

// -----

func.func @tied_count(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{ties 2 results and has 1}}
  %0 = tx.dispatch "exp"(%x) attributes {tied = array<i64: 0, -1>} : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %1 = tx.exp %a : tensor<8xf32>
    tx.yield %1 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}

// -----

func.func @pitch_below_row(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{at a pitch of 7; it must be at least their extent, a constant}}
  %0 = tx.dispatch "neg"(%x) attributes {pitch = 7 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%i: tensor<4x8xf32>):
    %y = tx.neg %i : tensor<4x8xf32>
    tx.yield %y : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

func.func @pitched_and_tied(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{has a `pitch`, which is for a single result that is not tied}}
  %0 = tx.dispatch "neg"(%x) attributes {pitch = 16 : i64, tied = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%i: tensor<4x8xf32>):
    %y = tx.neg %i : tensor<4x8xf32>
    tx.yield %y : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

func.func @other_size(%x: tensor<4xf32>) -> tensor<4xi64> {
  // expected-error @+1 {{makes 'i64' of 'f32', of another size}}
  %0 = tx.bit_cast %x : tensor<4xf32> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

func.func @seed_of_one_word(%x: tensor<4xi64>, %s: tensor<4xi32>) -> tensor<4xui32> {
  // expected-error @+1 {{has elements of 'i32'; i64 was expected}}
  %0 = tx.random_bits %x, %s : tensor<4xi64>, tensor<4xi32> -> tensor<4xui32>
  return %0 : tensor<4xui32>
}

// -----

func.func @three_corners(%x: tensor<5x3xf32>, %c: tensor<5xi1>, %t: tensor<f32>, %l: tensor<i64>) -> tensor<5xi1> {
  // expected-error @+1 {{has boxes of other extents than the result and 4}}
  %0 = tx.suppress %x, %c, %t, %l : tensor<5x3xf32>, tensor<5xi1>, tensor<f32>, tensor<i64> -> tensor<5xi1>
  return %0 : tensor<5xi1>
}

// -----

func.func @trees_elements(%x: tensor<4x3xf16>, %f: tensor<1x2x3xui16>, %t: tensor<1x2x3xf16>, %w: tensor<1x2x4x1xf16>) -> tensor<4x1x1xf16> {
  // expected-error @+1 {{has elements of 'f16'; f32 or f64 was expected}}
  %0 = tx.trees sum %x features %f thresholds %t weights %w steps 2 : (tensor<4x3xf16>, tensor<1x2x3xui16>, tensor<1x2x3xf16>, tensor<1x2x4x1xf16>) -> tensor<4x1x1xf16>
  return %0 : tensor<4x1x1xf16>
}

// -----

func.func @trees_steps(%x: tensor<4x3xf32>, %f: tensor<1x2x3xui16>, %t: tensor<1x2x3xf32>, %w: tensor<1x2x4x1xf32>) -> tensor<4x1x1xf32> {
  // expected-error @+1 {{weights do not fit complete trees}}
  %0 = tx.trees sum %x features %f thresholds %t weights %w steps 3 : (tensor<4x3xf32>, tensor<1x2x3xui16>, tensor<1x2x3xf32>, tensor<1x2x4x1xf32>) -> tensor<4x1x1xf32>
  return %0 : tensor<4x1x1xf32>
}

// -----

func.func @trees_nodes(%x: tensor<4x3xf32>, %f: tensor<1x2x4xui16>, %t: tensor<1x2x3xf32>, %w: tensor<1x2x4x1xf32>) -> tensor<4x1x1xf32> {
  // expected-error @+1 {{has tables of nodes with different extents}}
  %0 = tx.trees sum %x features %f thresholds %t weights %w steps 2 : (tensor<4x3xf32>, tensor<1x2x4xui16>, tensor<1x2x3xf32>, tensor<1x2x4x1xf32>) -> tensor<4x1x1xf32>
  return %0 : tensor<4x1x1xf32>
}

// -----

func.func @trees_result(%x: tensor<4x3xf32>, %f: tensor<1x2x3xui16>, %t: tensor<1x2x3xf32>, %w: tensor<1x2x4x1xf32>) -> tensor<4x2x1xf32> {
  // expected-error @+1 {{result extents do not fit}}
  %0 = tx.trees sum %x features %f thresholds %t weights %w steps 2 : (tensor<4x3xf32>, tensor<1x2x3xui16>, tensor<1x2x3xf32>, tensor<1x2x4x1xf32>) -> tensor<4x2x1xf32>
  return %0 : tensor<4x2x1xf32>
}

// -----

func.func @trees_kind(%x: tensor<4x3xf32>, %f: tensor<1x2x3xui16>, %t: tensor<1x2x3xf32>, %w: tensor<1x2x4x1xf32>) -> tensor<4x1x1xf32> {
  // expected-error @+1 {{needs kind sum, max or min}}
  %0 = tx.trees mean %x features %f thresholds %t weights %w steps 2 : (tensor<4x3xf32>, tensor<1x2x3xui16>, tensor<1x2x3xf32>, tensor<1x2x4x1xf32>) -> tensor<4x1x1xf32>
  return %0 : tensor<4x1x1xf32>
}

// -----

func.func @ngrams_letters(%x: tensor<4x9xui8>, %l: tensor<256xui8>, %s: tensor<2x128xi32>, %n: tensor<5x3xi32>) -> tensor<4x1x10xi32> {
  // expected-error @+1 {{has letters that are not [rows, 256]}}
  %0 = tx.ngrams %x leads %l letters %s nodes %n longest 1 least 1 goes_on 3 none 7 : (tensor<4x9xui8>, tensor<256xui8>, tensor<2x128xi32>, tensor<5x3xi32>) -> tensor<4x1x10xi32>
  return %0 : tensor<4x1x10xi32>
}

// -----

func.func @ngrams_least(%x: tensor<4x9xui8>, %l: tensor<256xui8>, %s: tensor<2x256xi32>, %n: tensor<5x3xi32>) -> tensor<4x1x10xi32> {
  // expected-error @+1 {{has tokens of one character, and wants 2}}
  %0 = tx.ngrams %x leads %l letters %s nodes %n longest 1 least 2 goes_on 3 none 7 : (tensor<4x9xui8>, tensor<256xui8>, tensor<2x256xi32>, tensor<5x3xi32>) -> tensor<4x1x10xi32>
  return %0 : tensor<4x1x10xi32>
}

// -----

func.func @ngrams_result(%x: tensor<4x9xui8>, %l: tensor<256xui8>, %s: tensor<2x256xi32>, %n: tensor<5x3xi32>) -> tensor<4x2x9xi32> {
  // expected-error @+1 {{result extents do not fit}}
  %0 = tx.ngrams %x leads %l letters %s nodes %n longest 2 least 1 goes_on 3 none 7 runs : (tensor<4x9xui8>, tensor<256xui8>, tensor<2x256xi32>, tensor<5x3xi32>) -> tensor<4x2x9xi32>
  return %0 : tensor<4x2x9xi32>
}
