#loc2 = loc("-":2:19)
"builtin.module"() ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<complex<f64>>) -> tensor<complex<f64>>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<complex<f64>> loc("-":2:19)):
    %0 = "stablehlo.after_all"(%arg0) : (tensor<complex<f64>>) -> tensor<complex<f64>> loc(#loc3)
    "func.return"(%0) : (tensor<complex<f64>>) -> () loc(#loc4)
  }) : () -> () loc(#loc1)
}) : () -> () loc(#loc)
#loc = loc("-":2:1)
#loc1 = loc("-":2:3)
#loc3 = loc("-":3:10)
#loc4 = loc("-":4:5)
