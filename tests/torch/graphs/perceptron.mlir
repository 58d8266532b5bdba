"builtin.module"() ({
  "func.func"() <{arg_attrs = [{torch.name = "a0"}, {torch.name = "a1"}, {torch.name = "a2", torch.extents = ["s33", 6]}, {torch.name = "a3"}, {torch.name = "a4"}, {torch.name = "a5"}, {torch.name = "a6"}], res_attrs = [{torch.name = "r0"}], function_type = (tensor<5x6xf32>, tensor<5xf32>, tensor<?x6xf32>, tensor<5xf32>, tensor<5xf32>, tensor<3x5xf32>, tensor<3xf32>) -> (tensor<?x3xf32>), sym_name = "main"}> ({
  ^bb0(%a0: tensor<5x6xf32>, %a1: tensor<5xf32>, %a2: tensor<?x6xf32>, %a3: tensor<5xf32>, %a4: tensor<5xf32>, %a5: tensor<3x5xf32>, %a6: tensor<3xf32>):
    %n0 = "aten.permute.default"(%a0) {operands = ["self"], dims = [1, 0]} : (tensor<5x6xf32>) -> tensor<6x5xf32> loc("permute")
    %n1 = "aten.addmm.default"(%a1, %a2, %n0) {operands = ["self", "mat1", "mat2"], beta = 1, alpha = 1, extents = [["s33", 5]]} : (tensor<5xf32>, tensor<?x6xf32>, tensor<6x5xf32>) -> tensor<?x5xf32> loc("addmm")
    %n2 = "aten.relu.default"(%n1) {operands = ["self"], extents = [["s33", 5]]} : (tensor<?x5xf32>) -> tensor<?x5xf32> loc("relu")
    %n3:3 = "aten.native_layer_norm.default"(%n2, %a3, %a4) {operands = ["input", "weight", "bias"], normalized_shape = [5], eps = 1.00000000000000008e-05 : f64, extents = [["s33", 5], ["s33", 1], ["s33", 1]]} : (tensor<?x5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<?x5xf32>, tensor<?x1xf32>, tensor<?x1xf32>) loc("native_layer_norm")
    %n4 = "aten.permute.default"(%a5) {operands = ["self"], dims = [1, 0]} : (tensor<3x5xf32>) -> tensor<5x3xf32> loc("permute_1")
    %n5 = "aten.addmm.default"(%a6, %n3#0, %n4) {operands = ["self", "mat1", "mat2"], beta = 1, alpha = 1, extents = [["s33", 3]]} : (tensor<3xf32>, tensor<?x5xf32>, tensor<5x3xf32>) -> tensor<?x3xf32> loc("addmm_1")
    %n6 = "aten._softmax.default"(%n5) {operands = ["self"], dim = -1, half_to_float = false, extents = [["s33", 3]]} : (tensor<?x3xf32>) -> tensor<?x3xf32> loc("_softmax")
    "func.return"(%n6) : (tensor<?x3xf32>) -> ()
  }) : () -> ()
}) {torch.graph = "recorded"} : () -> ()
