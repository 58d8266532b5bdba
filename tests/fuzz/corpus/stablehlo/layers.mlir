module @layers attributes {mhlo.num_partitions = 1 : i32} {
  "func.func"() <{function_type = (tensor<?x4xf32>, tensor<2xcomplex<f32>>) -> (tensor<?x3xf32>, tensor<2xf32>), sym_name = "main",
      arg_attrs = [{jax.arg_info = "x"}, {tf.aliasing_output = 1 : i32}]}> ({
  ^bb0(%x: tensor<?x4xf32>, %z: tensor<2xcomplex<f32>>):
    %w = "stablehlo.constant"() <{value = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [0.5, 0.25, 0.125]]> : tensor<4x3xf32>}> : () -> tensor<4x3xf32>
    %t = "stablehlo.tanh"(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
    %y = "func.call"(%t) <{callee = @same}> : (tensor<?x4xf32>) -> tensor<?x4xf32>
    %m = "stablehlo.abs"(%z) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
    %r = "stablehlo.custom_call"(%y) <{call_target_name = "Sharding"}> : (tensor<?x4xf32>) -> tensor<?x3xf32>
    "func.return"(%r, %m) : (tensor<?x3xf32>, tensor<2xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<?x4xf32>) -> tensor<?x4xf32>, sym_name = "same", sym_visibility = "private"}> ({
  ^bb0(%x: tensor<?x4xf32>):
    %s = "stablehlo.select"(%c, %x, %x) : (tensor<i1>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    "func.return"(%s) : (tensor<?x4xf32>) -> ()
  }) : () -> ()
}
