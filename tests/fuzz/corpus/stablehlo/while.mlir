"builtin.module"() <{sym_name = "jit_newton"}> ({
  "func.func"() <{arg_attrs = [{jax.arg_info = "x"}], function_type = (tensor<6xf32>) -> (tensor<6xf32>, tensor<i64>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<6xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
    %1 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %2 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>
    %3 = "stablehlo.constant"() <{value = dense<9.99999974E-6> : tensor<f32>}> : () -> tensor<f32>
    %4 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
    %5:4 = "stablehlo.while"(%arg0, %arg0, %arg0, %4) ({
    ^bb0(%arg5: tensor<6xf32>, %arg6: tensor<6xf32>, %arg7: tensor<6xf32>, %arg8: tensor<i64>):
      %11 = "stablehlo.multiply"(%arg7, %arg7) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
      %12 = "stablehlo.subtract"(%11, %arg5) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
      %13 = "stablehlo.abs"(%12) : (tensor<6xf32>) -> tensor<6xf32>
      %14 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6xf32>
      %15 = "stablehlo.multiply"(%14, %arg5) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
      %16 = "stablehlo.compare"(%13, %15) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
      %17 = "stablehlo.reduce"(%16, %2) <{dimensions = array<i64: 0>}> ({
      ^bb0(%arg9: tensor<i1>, %arg10: tensor<i1>):
        %18 = "stablehlo.or"(%arg9, %arg10) : (tensor<i1>, tensor<i1>) -> tensor<i1>
        "stablehlo.return"(%18) : (tensor<i1>) -> ()
      }) : (tensor<6xi1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%17) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg1: tensor<6xf32>, %arg2: tensor<6xf32>, %arg3: tensor<6xf32>, %arg4: tensor<i64>):
      %6 = "stablehlo.divide"(%arg2, %arg3) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
      %7 = "stablehlo.add"(%arg3, %6) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
      %8 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<6xf32>
      %9 = "stablehlo.divide"(%7, %8) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
      %10 = "stablehlo.add"(%arg4, %0) : (tensor<i64>, tensor<i64>) -> tensor<i64>
      "stablehlo.return"(%arg1, %arg2, %9, %10) : (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<i64>) -> ()
    }) : (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<i64>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<i64>)
    "func.return"(%5#2, %5#3) : (tensor<6xf32>, tensor<i64>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
