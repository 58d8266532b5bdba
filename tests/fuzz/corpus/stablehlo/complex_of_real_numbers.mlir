"builtin.module"() <{sym_name = "jit_attention"}> ({
  "func.func"() <{arg_attrs = [{jax.arg_info = "q"}, {jax.arg_info = "k"}, {jax.arg_info = "v"}, {jax.arg_info = "mask"}], function_type = (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>, tensor<6x6xi1>) -> tensor<2x6x4x8xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg3: tensor<2x6x4x8xf32>, %arg4: tensor<2x6x4x8xf32>, %arg5: tensor<2x6x4x8xf32>, %arg6: tensor<6x6xi1>):
    %4 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %5 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %6 = "stablehlo.constant"() <{value = dense<-1.000000e+09> : tensor<f64>}> : () -> tensor<f64>
    %7 = "stablehlo.constant"() <{value = dense<2.82842708> : tensor<complex<f32>>}> : () -> tensor<f32>
    %8 = "stablehlo.dot_general"(%arg3, %arg4) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 2], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [3]>}> : (tensor<2x6x4x8xf32>, tensor<2x6x4x8xf32>) -> tensor<2x4x6x6xf32>
    %9 = "stablehlo.broadcast_in_dim"(%7) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x4x6x6xf32>
    %10 = "stablehlo.divide"(%8, %9) : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
    %11 = "func.call"(%arg6, %10, %6) <{callee = @_where}> : (tensor<6x6xi1>, tensor<2x4x6x6xf32>, tensor<f64>) -> tensor<2x4x6x6xf32>
    %12 = "stablehlo.reduce"(%11, %5) <{dimensions = array<i64: 3>}> ({
    ^bb0(%arg9: tensor<f32>, %arg10: tensor<f32>):
      %26 = "stablehlo.maximum"(%arg9, %arg10) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%26) : (tensor<f32>) -> ()
    }) : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %13 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x4x6xf32>
    %14 = "stablehlo.maximum"(%13, %12) : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
    %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<2x4x6xf32>) -> tensor<2x4x6x1xf32>
    %16 = "stablehlo.broadcast_in_dim"(%15) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %17 = "stablehlo.subtract"(%11, %16) : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
    %18 = "stablehlo.exponential"(%17) : (tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
    %19 = "stablehlo.reduce"(%18, %4) <{dimensions = array<i64: 3>}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %25 = "stablehlo.add"(%arg7, %arg8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%25) : (tensor<f32>) -> ()
    }) : (tensor<2x4x6x6xf32>, tensor<f32>) -> tensor<2x4x6xf32>
    %20 = "stablehlo.broadcast_in_dim"(%19) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<2x4x6xf32>) -> tensor<2x4x6x1xf32>
    %21 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<2x4x6x1xf32>) -> tensor<2x4x6x6xf32>
    %22 = "stablehlo.divide"(%18, %21) : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
    %23 = "stablehlo.dot_general"(%arg5, %22) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 2], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [3]>}> : (tensor<2x6x4x8xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x8x6xf32>
    %24 = "stablehlo.transpose"(%23) <{permutation = array<i64: 0, 3, 1, 2>}> : (tensor<2x4x8x6xf32>) -> tensor<2x6x4x8xf32>
    "func.return"(%24) : (tensor<2x6x4x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<6x6xi1>, tensor<2x4x6x6xf32>, tensor<f64>) -> tensor<2x4x6x6xf32>, res_attrs = [{}], sym_name = "_where", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<6x6xi1>, %arg1: tensor<2x4x6x6xf32>, %arg2: tensor<f64>):
    %0 = "stablehlo.convert"(%arg2) : (tensor<f64>) -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 2, 3>}> : (tensor<6x6xi1>) -> tensor<2x4x6x6xi1>
    %2 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x4x6x6xf32>
    %3 = "stablehlo.select"(%1, %arg1, %2) : (tensor<2x4x6x6xi1>, tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
    "func.return"(%3) : (tensor<2x4x6x6xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
