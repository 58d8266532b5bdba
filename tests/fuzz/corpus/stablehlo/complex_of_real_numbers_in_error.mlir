"builtin.module"() <{sym_name = "jit__lambda"}> ({
  ^bb0(%arg0: tensor<i1>, %arg1: tensor<5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<complex<f32>>}> : () -> tensor<f32>
    %1 = "stablehlo.convert"(%arg0) : (tensor<i1>) -> tensor<i32>
    %2 = "stablehlo.case"(%1) ({
      %4 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
      %5 = "stablehlo.multiply"(%arg1, %4) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
      "stablehlo.return"(%4) : (tensor<5xf32>) -> ()
    }, {
      %3 = "stablehlo.sine"(%arg1) : (tensor<5xf32>) -> tensor<5xf32>
      "stablehlo.return"(%3) : (tensor<5xf32>) -> ()
    }) : (tensor<i32>) -> tensor<5xf32>
    "func.return"(%2) : (tensor<5xf32>) -> ()
  }) : () -> ()
