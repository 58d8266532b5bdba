"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{heddle.dimensions = ["b", "n"], jax.arg_info = "i"}], function_type = (tensor<?x?xi32>) -> tensor<?x?x4xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg3: tensor<?x?xi32>):
    %26 = "stablehlo.constant"() <{value = dense<1> : tensor<i64>}> : () -> tensor<i64>
    %27 = "stablehlo.get_dimension_size"(%arg3) <{dimension = 0 : i64}> : (tensor<?x?xi32>) -> tensor<i32>
    %28 = "stablehlo.convert"(%27) : (tensor<i32>) -> tensor<i64>
    %29 = "stablehlo.get_dimension_size"(%arg3) <{dimension = 1 : i64}> : (tensor<?x?xi32>) -> tensor<i32>
    %30 = "stablehlo.convert"(%29) : (tensor<i32>) -> tensor<i64>
    %31 = "stablehlo.compare"(%28, %26) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
    "stablehlo.custom_call"(%31, %28) <{api_version = 2 : i32, call_target_name = "shape_assertion", has_side_effect = true}> {error_message = "Input shapes do not match the polymorphic shapes specification. Expected value >= 1 for dimension variable 'b'. Using the following polymorphic shapes specifications: args[0].shape = (b, n). Obtained dimension variables: 'b' = {0} from specification 'b' for dimension args[0].shape[0] (= {0}), . Please see https://docs.jax.dev/en/latest/export/shape_poly.html#shape-assertion-errors for more details."} : (tensor<i1>, tensor<i64>) -> ()
    %32 = "stablehlo.compare"(%30, %26) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<i64>, tensor<i64>) -> tensor<i1>
    "stablehlo.custom_call"(%32, %28, %30) <{api_version = 2 : i32, call_target_name = "shape_assertion", has_side_effect = true}> {error_message = "Input shapes do not match the polymorphic shapes specification. Expected value >= 1 for dimension variable 'n'. Using the following polymorphic shapes specifications: args[0].shape = (b, n). Obtained dimension variables: 'b' = {0} from specification 'b' for dimension args[0].shape[0] (= {0}), 'n' = {1} from specification 'n' for dimension args[0].shape[1] (= {1}), . Please see https://docs.jax.dev/en/latest/export/shape_poly.html#shape-assertion-errors for more details."} : (tensor<i1>, tensor<i64>, tensor<i64>) -> ()
    %33 = "func.call"(%28, %30, %arg3) <{callee = @_wrapped_jax_export_main}> : (tensor<i64>, tensor<i64>, tensor<?x?xi32>) -> tensor<?x?x4xf32>
    "func.return"(%33) : (tensor<?x?x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{jax.global_constant = "b"}, {jax.global_constant = "n"}, {}], function_type = (tensor<i64>, tensor<i64>, tensor<?x?xi32>) -> tensor<?x?x4xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "_wrapped_jax_export_main", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<i64>, %arg1: tensor<i64>, %arg2: tensor<?x?xi32>):
    %0 = "stablehlo.constant"() <{value = dense<1> : tensor<1xi32>}> : () -> tensor<1xi32>
    %1 = "stablehlo.constant"() <{value = dense<20> : tensor<i32>}> : () -> tensor<i32>
    %2 = "stablehlo.constant"() <{value = dense<[[0.345584184, 0.821618139, 0.330437064, -1.30315721], [0.90535587, 0.446374565, -0.536953211, 0.581118107], [0.364572406, 0.294132501, 0.028422242, 5.467130e-01], [-0.736454069, -0.162909955, -0.482119322, 0.598846197], [0.0397221074, -0.292456746, -0.781908452, -0.257192254], [0.00814218074, -0.275602907, 1.29406381, 1.00672436], [-2.71116257, -1.88901329, -0.174772099, -0.422190398], [2.136430e-01, 0.217321932, 2.11783886, -1.11202073], [-0.377605021, 2.04277158, 6.467030e-01, 0.663063347], [-0.514006376, -1.64807522, 0.167464748, 0.109014086], [-1.22735202, -0.683226644, -0.0720436797, -0.94475162], [-0.0982699692, 0.0954830273, 0.0355862379, -0.506291687], [0.593748093, 0.891166925, 0.320848316, -0.818230211], [0.73165226, -0.501440048, 0.879160643, -1.07178736], [0.914467215, -0.0200634543, -1.2487489, -0.313899457], [0.0541022792, 0.272791326, -0.982188105, -1.107373], [0.199584529, -0.466749609, 0.235505611, 0.759519517], [-1.64878738, 0.254388124, 1.22464693, -0.297526836], [-0.810814559, 0.752243816, 0.253446519, 0.895883083], [-0.345215708, -1.48181832, -0.110010765, -0.44582814]]> : tensor<20x4xf32>}> : () -> tensor<20x4xf32>
    %3 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %4 = "stablehlo.convert"(%arg0) : (tensor<i64>) -> tensor<i32>
    %5 = "stablehlo.reshape"(%4) : (tensor<i32>) -> tensor<1xi32>
    %6 = "stablehlo.convert"(%arg1) : (tensor<i64>) -> tensor<i32>
    %7 = "stablehlo.reshape"(%6) : (tensor<i32>) -> tensor<1xi32>
    %8 = "stablehlo.concatenate"(%5, %7) <{dimension = 0 : i64}> : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %9 = "stablehlo.dynamic_broadcast_in_dim"(%3, %8) <{broadcast_dimensions = array<i64>}> : (tensor<i32>, tensor<2xi32>) -> tensor<?x?xi32>
    %10 = "stablehlo.compare"(%arg2, %9) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<?x?xi32>, tensor<?x?xi32>) -> tensor<?x?xi1>
    %11 = "stablehlo.convert"(%arg0) : (tensor<i64>) -> tensor<i32>
    %12 = "stablehlo.reshape"(%11) : (tensor<i32>) -> tensor<1xi32>
    %13 = "stablehlo.convert"(%arg1) : (tensor<i64>) -> tensor<i32>
    %14 = "stablehlo.reshape"(%13) : (tensor<i32>) -> tensor<1xi32>
    %15 = "stablehlo.concatenate"(%12, %14) <{dimension = 0 : i64}> : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %16 = "stablehlo.dynamic_broadcast_in_dim"(%1, %15) <{broadcast_dimensions = array<i64>}> : (tensor<i32>, tensor<2xi32>) -> tensor<?x?xi32>
    %17 = "stablehlo.add"(%arg2, %16) : (tensor<?x?xi32>, tensor<?x?xi32>) -> tensor<?x?xi32>
    %18 = "stablehlo.select"(%10, %17, %arg2) : (tensor<?x?xi1>, tensor<?x?xi32>, tensor<?x?xi32>) -> tensor<?x?xi32>
    %19 = "stablehlo.convert"(%arg0) : (tensor<i64>) -> tensor<i32>
    %20 = "stablehlo.reshape"(%19) : (tensor<i32>) -> tensor<1xi32>
    %21 = "stablehlo.convert"(%arg1) : (tensor<i64>) -> tensor<i32>
    %22 = "stablehlo.reshape"(%21) : (tensor<i32>) -> tensor<1xi32>
    %23 = "stablehlo.concatenate"(%20, %22, %0) <{dimension = 0 : i64}> : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>
    %24 = "stablehlo.dynamic_broadcast_in_dim"(%18, %23) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<?x?xi32>, tensor<3xi32>) -> tensor<?x?x1xi32>
    %25 = "stablehlo.gather"(%2, %24) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 4>}> : (tensor<20x4xf32>, tensor<?x?x1xi32>) -> tensor<?x?x4xf32>
    "func.return"(%25) : (tensor<?x?x4xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = true, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
