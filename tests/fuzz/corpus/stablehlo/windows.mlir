"builtin.module"() ({
  "func.func"() <{function_type = (tensor<1x6x6x2xf32>, tensor<3x3x2x4xf32>) -> (tensor<1x3x3x4xf32>, tensor<1x2x3x4xf32>), sym_name = "main"}> ({
  ^bb0(%x: tensor<1x6x6x2xf32>, %k: tensor<3x3x2x4xf32>):
    %0 = "stablehlo.convolution"(%x, %k) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
      feature_group_count = 1 : i64, lhs_dilation = array<i64: 1, 1>, padding = dense<1> : tensor<2x2xi64>, rhs_dilation = array<i64: 1, 1>,
      window_reversal = array<i1: false, true>, window_strides = array<i64: 2, 2>}> : (tensor<1x6x6x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x3x3x4xf32>
    %z = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.reduce_window"(%0, %z) <{window_dimensions = array<i64: 1, 2, 1, 1>, window_strides = array<i64: 1, 1, 1, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%m) : (tensor<f32>) -> ()
    }) : (tensor<1x3x3x4xf32>, tensor<f32>) -> tensor<1x2x3x4xf32>
    "func.return"(%0, %1) : (tensor<1x3x3x4xf32>, tensor<1x2x3x4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
