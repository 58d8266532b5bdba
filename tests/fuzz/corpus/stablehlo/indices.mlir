"builtin.module"() ({
  "func.func"() <{function_type = (tensor<5x7xi32>, tensor<3x2xui8>, tensor<3x4xi32>) -> (tensor<3x4xi32>, tensor<5x7xi32>, tensor<5x7xi32>), sym_name = "main"}> ({
  ^bb0(%x: tensor<5x7xi32>, %i: tensor<3x2xui8>, %u: tensor<3x4xi32>):
    %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 1],
      index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<5x7xi32>, tensor<3x2xui8>) -> tensor<3x4xi32>
    %1 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = true}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %s = "stablehlo.subtract"(%b, %a) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%s) : (tensor<i32>) -> ()
    }) : (tensor<5x7xi32>, tensor<3x2xui8>, tensor<3x4xi32>) -> tensor<5x7xi32>
    %2:2 = "stablehlo.sort"(%x, %1) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
      %s = "stablehlo.compare"(%a, %b) <{comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%s) : (tensor<i1>) -> ()
    }) : (tensor<5x7xi32>, tensor<5x7xi32>) -> (tensor<5x7xi32>, tensor<5x7xi32>)
    "func.return"(%0, %2#0, %2#1) : (tensor<3x4xi32>, tensor<5x7xi32>, tensor<5x7xi32>) -> ()
  }) : () -> ()
}) : () -> ()
