#loc2 = loc("-":2:19)
#loc3 = loc("-":2:41)
"builtin.module"() ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf64> loc("-":2:19), %arg1: tensor<4xf64> loc("-":2:41)):
    %0 = "stablehlo.complex"(%arg0, %arg1) : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64> loc(#loc4)
    "func.return"(%0) : (tensor<4xf64>) -> () loc(#loc5)
  }) : () -> () loc(#loc1)
}) : () -> () loc(#loc)
#loc = loc("-":1:1)
#loc1 = loc("-":2:3)
#loc4 = loc("-":3:10)
#loc5 = loc("-":4:5)
