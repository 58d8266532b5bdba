"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{jax.arg_info = "x"}], function_type = (tensor<6x8xf32>) -> (tensor<6x5xcomplex<f32>>, tensor<6x8xf32>, tensor<6x8xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}, {jax.result_info = "result[2]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg3: tensor<6x8xf32>):
    %4 = "func.call"(%arg3) <{callee = @fft}> : (tensor<6x8xf32>) -> tensor<6x5xcomplex<f32>>
    %5 = "func.call"(%arg3) <{callee = @fft}> : (tensor<6x8xf32>) -> tensor<6x5xcomplex<f32>>
    %6 = "func.call"(%5) <{callee = @fft_0}> : (tensor<6x5xcomplex<f32>>) -> tensor<6x8xf32>
    %7 = "func.call"(%arg3) <{callee = @fft_1}> : (tensor<6x8xf32>) -> tensor<6x8xcomplex<f32>>
    %8 = "stablehlo.abs"(%7) : (tensor<6x8xcomplex<f32>>) -> tensor<6x8xf32>
    "func.return"(%4, %6, %8) : (tensor<6x5xcomplex<f32>>, tensor<6x8xf32>, tensor<6x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<6x8xf32>) -> tensor<6x5xcomplex<f32>>, res_attrs = [{}], sym_name = "fft", sym_visibility = "private"}> ({
  ^bb0(%arg2: tensor<6x8xf32>):
    %3 = "stablehlo.fft"(%arg2) <{fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type RFFT>}> : (tensor<6x8xf32>) -> tensor<6x5xcomplex<f32>>
    "func.return"(%3) : (tensor<6x5xcomplex<f32>>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<6x5xcomplex<f32>>) -> tensor<6x8xf32>, res_attrs = [{}], sym_name = "fft_0", sym_visibility = "private"}> ({
  ^bb0(%arg1: tensor<6x5xcomplex<f32>>):
    %2 = "stablehlo.fft"(%arg1) <{fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type IRFFT>}> : (tensor<6x5xcomplex<f32>>) -> tensor<6x8xf32>
    "func.return"(%2) : (tensor<6x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<6x8xf32>) -> tensor<6x8xcomplex<f32>>, res_attrs = [{}], sym_name = "fft_1", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<6x8xf32>):
    %0 = "stablehlo.convert"(%arg0) : (tensor<6x8xf32>) -> tensor<6x8xcomplex<f32>>
    %1 = "stablehlo.fft"(%0) <{fft_length = array<i64: 6, 8>, fft_type = #stablehlo<fft_type FFT>}> : (tensor<6x8xcomplex<f32>>) -> tensor<6x8xcomplex<f32>>
    "func.return"(%1) : (tensor<6x8xcomplex<f32>>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
