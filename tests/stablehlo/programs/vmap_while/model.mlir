"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{jax.arg_info = "n"}], function_type = (tensor<5xi64>) -> (tensor<5xi64>, tensor<5xi64>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<5xi64>):
    %0 = "stablehlo.constant"() <{value = dense<2> : tensor<i64>}> : () -> tensor<i64>
    %1 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>
    %2 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
    %3 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<5xi64>
    %5 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<5xi64>
    %6:3 = "stablehlo.while"(%arg0, %4, %5) ({
    ^bb0(%arg4: tensor<5xi64>, %arg5: tensor<5xi64>, %arg6: tensor<5xi64>):
      %18 = "stablehlo.convert"(%arg5) : (tensor<5xi64>) -> tensor<5xi64>
      %19 = "stablehlo.compare"(%18, %arg4) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi1>
      %20 = "stablehlo.reduce"(%19, %1) <{dimensions = array<i64: 0>}> ({
      ^bb0(%arg7: tensor<i1>, %arg8: tensor<i1>):
        %21 = "stablehlo.or"(%arg7, %arg8) : (tensor<i1>, tensor<i1>) -> tensor<i1>
        "stablehlo.return"(%21) : (tensor<i1>) -> ()
      }) : (tensor<5xi1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%20) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg1: tensor<5xi64>, %arg2: tensor<5xi64>, %arg3: tensor<5xi64>):
      %7 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<5xi64>
      %8 = "stablehlo.add"(%arg2, %7) : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64>
      %9 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<i64>) -> tensor<5xi64>
      %10 = "stablehlo.multiply"(%arg3, %9) : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64>
      %11 = "stablehlo.add"(%10, %arg2) : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64>
      %12 = "stablehlo.convert"(%arg2) : (tensor<5xi64>) -> tensor<5xi64>
      %13 = "stablehlo.compare"(%12, %arg1) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi1>
      %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64: 0>}> : (tensor<5xi1>) -> tensor<5xi1>
      %15 = "stablehlo.select"(%14, %8, %arg2) : (tensor<5xi1>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64>
      %16 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64: 0>}> : (tensor<5xi1>) -> tensor<5xi1>
      %17 = "stablehlo.select"(%16, %11, %arg3) : (tensor<5xi1>, tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64>
      "stablehlo.return"(%arg1, %15, %17) : (tensor<5xi64>, tensor<5xi64>, tensor<5xi64>) -> ()
    }) : (tensor<5xi64>, tensor<5xi64>, tensor<5xi64>) -> (tensor<5xi64>, tensor<5xi64>, tensor<5xi64>)
    "func.return"(%6#1, %6#2) : (tensor<5xi64>, tensor<5xi64>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
