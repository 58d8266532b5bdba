"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{heddle.dimensions = ["n", "", ""], jax.arg_info = "x"}], function_type = (tensor<?x2x4xf32>) -> (tensor<2x6xf32>, tensor<?x2x6xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg26: tensor<?x2x4xf32>):
    %30 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
    %31 = "stablehlo.get_dimension_size"(%arg26) <{dimension = 0 : i64}> : (tensor<?x2x4xf32>) -> tensor<i32>
    %32 = "stablehlo.convert"(%31) : (tensor<i32>) -> tensor<i64>
    %33 = "stablehlo.compare"(%32, %30) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
    "stablehlo.custom_call"(%33, %32) <{api_version = 2 : i32, call_target_name = "shape_assertion", has_side_effect = true}> {error_message = "Input shapes do not match the polymorphic shapes specification. Expected value >= 1 for dimension variable 'n'. Using the following polymorphic shapes specifications: args[0].shape = (n, 2, 4). Obtained dimension variables: 'n' = {0} from specification 'n' for dimension args[0].shape[0] (= {0}), . Please see https://docs.jax.dev/en/latest/export/shape_poly.html#shape-assertion-errors for more details."} : (tensor<i1>, tensor<i64>) -> ()
    %34:2 = "func.call"(%32, %arg26) <{callee = @_wrapped_jax_export_main}> : (tensor<i64>, tensor<?x2x4xf32>) -> (tensor<2x6xf32>, tensor<?x2x6xf32>)
    "func.return"(%34#0, %34#1) : (tensor<2x6xf32>, tensor<?x2x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{jax.global_constant = "n"}, {}], function_type = (tensor<i64>, tensor<?x2x4xf32>) -> (tensor<2x6xf32>, tensor<?x2x6xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "_wrapped_jax_export_main", sym_visibility = "private"}> ({
  ^bb0(%arg12: tensor<i64>, %arg13: tensor<?x2x4xf32>):
    %10 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
    %11 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
    %12 = "stablehlo.constant"() <{value = dense<6> : tensor<1xi32>}> : () -> tensor<1xi32>
    %13 = "stablehlo.constant"() <{value = dense<2> : tensor<1xi32>}> : () -> tensor<1xi32>
    %14 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %15 = "stablehlo.constant"() <{value = dense<[[0.172792092, 0.41080907, 0.165218532, -0.651578605, 0.452677935, 0.223187283], [-0.268476605, 0.290559053, 0.182286203, 0.14706625, 0.014211121, 0.273356497], [-0.368227035, -0.0814549774, -0.241059661, 0.299423099, 0.0198610537, -0.146228373], [-0.390954226, -0.128596127, 0.00407109037, -0.137801453, 0.647031903, 0.503362179]]> : tensor<4x6xf32>}> : () -> tensor<4x6xf32>
    %16 = "stablehlo.constant"() <{value = dense<[[0.0945266932, -0.261374235, -0.206531778, -1.22073364, 0.899853706, 0.572082937], [-0.162711412, 0.386903286, 0.14060533, -0.276911408, 0.488783717, -0.15527828], [-0.164411947, -0.396073371, 0.227479041, -0.0495990254, 0.272644371, -0.303592861], [0.0634139255, -4.461370e-01, 0.420732498, 0.0940175428, 0.165285498, 0.205251962], [-0.505378723, 0.391590506, 1.02835143, -0.819221258, -0.864705741, -0.752415716], [0.420729458, 0.0643578321, 0.539171219, 0.361215442, 0.105285905, 0.142019078]]> : tensor<6x6xf32>}> : () -> tensor<6x6xf32>
    %17 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f64>}> : () -> tensor<f64>
    %18 = "stablehlo.broadcast_in_dim"(%17) <{broadcast_dimensions = array<i64>}> : (tensor<f64>) -> tensor<2x6xf64>
    %19 = "stablehlo.convert"(%18) : (tensor<2x6xf64>) -> tensor<2x6xf32>
    %20 = "stablehlo.convert"(%arg12) : (tensor<i64>) -> tensor<i32>
    %21 = "stablehlo.reshape"(%20) : (tensor<i32>) -> tensor<1xi32>
    %22 = "stablehlo.concatenate"(%21, %13, %12) <{dimension = 0 : i64}> : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>
    %23 = "stablehlo.dynamic_broadcast_in_dim"(%14, %22) <{broadcast_dimensions = array<i64>}> : (tensor<f32>, tensor<3xi32>) -> tensor<?x2x6xf32>
    %24:6 = "stablehlo.while"(%arg13, %15, %16, %11, %19, %23) ({
    ^bb0(%arg20: tensor<?x2x4xf32>, %arg21: tensor<4x6xf32>, %arg22: tensor<6x6xf32>, %arg23: tensor<i64>, %arg24: tensor<2x6xf32>, %arg25: tensor<?x2x6xf32>):
      %29 = "stablehlo.compare"(%arg23, %arg12) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
      "stablehlo.return"(%29) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg14: tensor<?x2x4xf32>, %arg15: tensor<4x6xf32>, %arg16: tensor<6x6xf32>, %arg17: tensor<i64>, %arg18: tensor<2x6xf32>, %arg19: tensor<?x2x6xf32>):
      %25 = "func.call"(%arg12, %arg14, %arg17) <{callee = @dynamic_index_in_dim}> : (tensor<i64>, tensor<?x2x4xf32>, tensor<i64>) -> tensor<2x4xf32>
      %26:2 = "func.call"(%arg12, %arg15, %arg16, %arg18, %25) <{callee = @closed_call}> : (tensor<i64>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<2x6xf32>, tensor<2x4xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
      %27 = "func.call"(%arg12, %arg19, %26#1, %arg17) <{callee = @dynamic_update_index_in_dim}> : (tensor<i64>, tensor<?x2x6xf32>, tensor<2x6xf32>, tensor<i64>) -> tensor<?x2x6xf32>
      %28 = "stablehlo.add"(%arg17, %10) : (tensor<i64>, tensor<i64>) -> tensor<i64>
      "stablehlo.return"(%arg14, %arg15, %arg16, %28, %26#0, %27) : (tensor<?x2x4xf32>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<i64>, tensor<2x6xf32>, tensor<?x2x6xf32>) -> ()
    }) : (tensor<?x2x4xf32>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<i64>, tensor<2x6xf32>, tensor<?x2x6xf32>) -> (tensor<?x2x4xf32>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<i64>, tensor<2x6xf32>, tensor<?x2x6xf32>)
    "func.return"(%24#4, %24#5) : (tensor<2x6xf32>, tensor<?x2x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{jax.global_constant = "n"}, {}, {}], function_type = (tensor<i64>, tensor<?x2x4xf32>, tensor<i64>) -> tensor<2x4xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg9: tensor<i64>, %arg10: tensor<?x2x4xf32>, %arg11: tensor<i64>):
    %7 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
    %8 = "stablehlo.dynamic_slice"(%arg10, %arg11, %7, %7) <{slice_sizes = array<i64: 1, 2, 4>}> : (tensor<?x2x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<1x2x4xf32>
    %9 = "stablehlo.reshape"(%8) : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    "func.return"(%9) : (tensor<2x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{jax.global_constant = "n"}, {}, {}, {}, {}], function_type = (tensor<i64>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<2x6xf32>, tensor<2x4xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>), res_attrs = [{}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg4: tensor<i64>, %arg5: tensor<4x6xf32>, %arg6: tensor<6x6xf32>, %arg7: tensor<2x6xf32>, %arg8: tensor<2x4xf32>):
    %3 = "stablehlo.dot_general"(%arg8, %arg5) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
    %4 = "stablehlo.dot_general"(%arg7, %arg6) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<2x6xf32>, tensor<6x6xf32>) -> tensor<2x6xf32>
    %5 = "stablehlo.add"(%3, %4) : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
    %6 = "stablehlo.tanh"(%5) : (tensor<2x6xf32>) -> tensor<2x6xf32>
    "func.return"(%6, %6) : (tensor<2x6xf32>, tensor<2x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{jax.global_constant = "n"}, {}, {}, {}], function_type = (tensor<i64>, tensor<?x2x6xf32>, tensor<2x6xf32>, tensor<i64>) -> tensor<?x2x6xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<i64>, %arg1: tensor<?x2x6xf32>, %arg2: tensor<2x6xf32>, %arg3: tensor<i64>):
    %0 = "stablehlo.constant"() <{value = dense<0> : tensor<i64>}> : () -> tensor<i64>
    %1 = "stablehlo.broadcast_in_dim"(%arg2) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<2x6xf32>) -> tensor<1x2x6xf32>
    %2 = "stablehlo.dynamic_update_slice"(%arg1, %1, %arg3, %0, %0) : (tensor<?x2x6xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<?x2x6xf32>
    "func.return"(%2) : (tensor<?x2x6xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = true, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
