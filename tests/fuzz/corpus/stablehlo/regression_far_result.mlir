#loc2 = loc("-":2:19)
#loc3 = loc("-":2:39)
"builtin.module"() ({
    %4 = "stablehlo.broadcast"(%3) <{broadcast_sizes = array<i64: 4>}> : (tensor<i32>) -> tensor<4xi32> loc(#loc4)
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<f32> loc("-":65537:19), %arg1: tensor<f32> loc("-":2:39)):
    %0:2 = "stablehlo.optimization_barrier"(%arg0, %arg1) : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>) loc(#loc4)
    "func.return"(%0#2147483647, %0#1) : (tensor<f32>, tensor<f32>) -> () loc(#loc5)
  }) : () -> () loc(#loc1)
}) : () -> () loc(#loc)
#loc = loc("-":2147483647:1)
#loc1 = loc("-":2:3)
#loc4 = loc("-":3:12)
#loc5 = loc("-":4:5)
