"builtin.module"() <{sym_name = "jit_recurrent"}> ({
  "func.func"() <{arg_attrs = [{jax.arg_info = "weights[1099511627776]"}, {jax.arg_info = "weights[1]"}, {jax.arg_info = "x"}], function_type = (tensor<4x6xf32>, tensor<6x6xf32>, tensor<9x2x4xf32>) -> (tensor<2x6xf32>, tensor<9x2x6xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg9: tensor<4x6xf32>, %arg10: tensor<6x6xf32>, %arg11: tensor<9x2x4xf32>):
    %10 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
    %11 = "stablehlo.constant"() <{value = dense<9> : tensor<i64>}> : () -> tensor<i64>
    %12 = "stablehlo.constant"() <{value = dense<-9223372036854775808> : tensor<i64>}> : () -> tensor<i64>
    %13 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %14 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f64>}> : () -> tensor<f64>
    %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> : (tensor<f64>) -> tensor<2x6xf64>
    %16 = "stablehlo.convert"(%15) : (tensor<2x6xf64>) -> tensor<2x6xf32>
    %17 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<9x2x6xf32>
    %18:6 = "stablehlo.while"(%arg11, %arg9, %arg10, %12, %16, %17) ({
    ^bb0(%arg18: tensor<9x2x4xf32>, %arg19: tensor<4x6xf32>, %arg20: tensor<6x6xf32>, %arg21: tensor<i64>, %arg22: tensor<2x6xf32>, %arg23: tensor<9x2x6xf32>):
      %23 = "stablehlo.compare"(%arg21, %11) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
      "stablehlo.return"(%23) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg12: tensor<9x2x4xf32>, %arg13: tensor<4x6xf32>, %arg14: tensor<6x6xf32>, %arg15: tensor<i64>, %arg16: tensor<2x6xf32>, %arg17: tensor<9x2x6xf32>):
      %19 = "func.call"(%arg12, %arg15) <{callee = @dynamic_index_in_dim}> : (tensor<9x2x4xf32>, tensor<i64>) -> tensor<2x4xf32>
      %20:2 = "func.call"(%arg13, %arg14, %arg16, %19) <{callee = @closed_call}> : (tensor<4x6xf32>, tensor<6x6xf32>, tensor<2x6xf32>, tensor<2x4xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
      %21 = "func.call"(%arg17, %20#1, %arg15) <{callee = @dynamic_update_index_in_dim}> : (tensor<9x2x6xf32>, tensor<2x6xf32>, tensor<i64>) -> tensor<9x2x6xf32>
      %22 = "stablehlo.add"(%arg15, %10) : (tensor<i64>, tensor<i64>) -> tensor<i64>
      "stablehlo.return"(%arg12, %arg13, %arg14, %22, %20#0, %21) : (tensor<9x2x4xf32>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<i64>, tensor<2x6xf32>, tensor<9x2x6xf32>) -> ()
    }) : (tensor<9x2x4xf32>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<i64>, tensor<2x6xf32>, tensor<9x2x6xf32>) -> (tensor<9x2x4xf32>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<i64>, tensor<2x6xf32>, tensor<9x2x6xf32>)
    "func.return"(%18#4, %18#5) : (tensor<2x6xf32>, tensor<9x2x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<9x2x4xf32>, tensor<i64>) -> tensor<2x4xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg7: tensor<9x2x4xf32>, %arg8: tensor<i64>):
    %7 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
    %8 = "stablehlo.dynamic_slice"(%arg7, %arg8, %7, %7) <{slice_sizes = array<i64: 1, 2, 4>}> : (tensor<9x2x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<1x2x4xf32>
    %9 = "stablehlo.reshape"(%8) : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    "func.return"(%9) : (tensor<2x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x6xf32>, tensor<6x6xf32>, tensor<2x6xf32>, tensor<2x4xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>), res_attrs = [{}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<4x6xf32>, %arg4: tensor<6x6xf32>, %arg5: tensor<2x6xf32>, %arg6: tensor<2x4xf32>):
    %3 = "stablehlo.dot_general"(%arg6, %arg3) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
    %4 = "stablehlo.dot_general"(%arg5, %arg4) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
    %5 = "stablehlo.add"(%3, %4) : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
    %6 = "stablehlo.power"(%5) : (tensor<2x6xf32>) -> tensor<2x6xf32>
    "func.return"(%6, %6) : (tensor<2x6xf32>, tensor<2x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<9x2x6xf32>, tensor<2x6xf32>, tensor<i64>) -> tensor<9x2x6xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<9x2x6xf32>, %arg1: tensor<2x6xf32>, %arg2: tensor<i64>):
    %0 = "stablehlo.real"() <{value = dense<3> : tensor<i64>}> : () -> tensor<i64>
    %1 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<2x6xf32>) -> tensor<1x2x6xf32>
    %2 = "stablehlo.after_all"(%arg0, %1, %arg2, %0, %0) : (tensor<9x2x6xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<9x2x6xf32>
    "func.return"(%2) : (tensor<9x2x6xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
