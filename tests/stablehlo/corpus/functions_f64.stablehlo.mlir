// SPDX-License-Identifier: Apache-2.0
// programs.py --update wrote this file.
// in float64 4x3 -0.7096082602023533 0.6497169715458075 -0.6792168612500771 -0.11948072095984033 0.4915456874772677 -1.4933057679657966 1.3574791917191158 -0.9398001981590869 -1.7393742883409447 0.15406484364500558 0.8900825569820839 -0.4581586832372792
// out float64 4x3 1.6843984675643888 0.35818002392765613 1.6632253925022689 1.1341807493578258 0.48696094097766407 1.9653009634215641 0.054887528580322906 1.8161778237848536 1.9861003630027865 0.8275221497183054 0.20811456680182328 1.4829725056792613
// out float64 4x3 -0.07877186716243886 0.07209932126634379 -0.07538509299121549 -0.013236652017753835 0.05450655886512279 -0.1669645827917388 0.15153118500249213 -0.10448855145166747 -0.19513371678009478 0.01706870904706114 0.0989236309436316 -0.050797729326702526
// out float64 4x3 -0.8919480371014697 0.8661133587212815 -0.8790282236077271 -0.49252991266671053 0.7892016115424845 -1.1430088179738023 1.1072466977651314 -0.9795166984400967 -1.2026271811843554 0.5360860619181016 0.9619299128511268 -0.7709128899736805
// out float64 4x3 -1.3570018543026843 0.6305460247212482 -2.16422964921658 -0.08779037785045994 2.659689582437372 -2.4321670306832837 1.6585867046453566 -1.088893255642475 -2.2802219497014065 2.927798181097581 0.9402503020736483 -2.54815933116811
// out float64 4x3 -0.77067889379116 0.6964026008438556 -0.7326593090343171 -0.11976520128753101 0.5115805124673214 -2.1135794712794427 1.8145377642339262 -1.0843820445536325 -2.7590746916937294 0.15467504729036408 1.012354422445735 -0.47435638861764234
// out float64 4x3 -0.6605201932910826 0.6109869950174193 -0.6355572536992278 -0.11919825445320123 0.4736373013419208 -1.1910441798873668 1.1130163138020603 -0.83815898640458 -1.320613841542299 0.15346178319256665 0.8014771598103994 -0.4434783561033679
// out float64 4x3 -0.09334888562233101 0.6497169715458075 -0.22105817801279787 -0.11948072095984033 0.4915456874772677 -1.4933057679657966 0.04319126116087216 -0.4482545106818192 -0.24606852037514804 0.15406484364500558 0.2403655854362764 -0.4581586832372792
// out float64 4x3 -1.0 1.0 -1.0 -0.0 0.0 -1.0 1.0 -1.0 -2.0 0.0 1.0 -0.0
// out float64 4x3 1.275611388379836 0.755655315640746 1.3004770352307256 1.2889768573010831 0.7053254593528604 0.5494683456861622 1.5141975233166554 1.0600862760167127 0.38182689577575224 0.7496415915827495 0.9015478528916028 1.4299093265570926
// out float64 4x3 -0.7096082602023533 -0.9398001981590869 -1.7393742883409447 -0.11948072095984033 0.4915456874772677 -1.4933057679657966 0.15406484364500558 0.6497169715458075 -0.6792168612500771 1.3574791917191158 0.8900825569820839 -0.4581586832372792
// out float64 3x3 2.384305257626238 -1.6584035463289173 -1.7713514039498188 -1.6584035463289173 2.339220676695779 0.05153851613349276 -1.7713514039498188 0.05153851613349276 5.926629955213609
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf64>) -> (tensor<4x3xf64> {jax.result_info = "result[0]"}, tensor<4x3xf64> {jax.result_info = "result[1]"}, tensor<4x3xf64> {jax.result_info = "result[2]"}, tensor<4x3xf64> {jax.result_info = "result[3]"}, tensor<4x3xf64> {jax.result_info = "result[4]"}, tensor<4x3xf64> {jax.result_info = "result[5]"}, tensor<4x3xf64> {jax.result_info = "result[6]"}, tensor<4x3xf64> {jax.result_info = "result[7]"}, tensor<4x3xf64> {jax.result_info = "result[8]"}, tensor<4x3xf64> {jax.result_info = "result[9]"}, tensor<3x3xf64> {jax.result_info = "result[10]"}) {
    %0 = chlo.erfc %arg0 : tensor<4x3xf64> -> tensor<4x3xf64>
    %cst = stablehlo.constant dense<8.000000e+00> : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<4x3xf64>
    %2 = stablehlo.divide %arg0, %1 : tensor<4x3xf64>
    %3 = chlo.erf_inv %2 : tensor<4x3xf64> -> tensor<4x3xf64>
    %4 = stablehlo.cbrt %arg0 : tensor<4x3xf64>
    %5 = stablehlo.reverse %arg0, dims = [0] : tensor<4x3xf64>
    %6 = stablehlo.atan2 %arg0, %5 : tensor<4x3xf64>
    %7 = chlo.sinh %arg0 : tensor<4x3xf64> -> tensor<4x3xf64>
    %8 = chlo.asinh %arg0 : tensor<4x3xf64> -> tensor<4x3xf64>
    %9 = stablehlo.reverse %arg0, dims = [0] : tensor<4x3xf64>
    %10 = stablehlo.remainder %arg0, %9 : tensor<4x3xf64>
    %11 = stablehlo.round_nearest_afz %arg0 : tensor<4x3xf64>
    %12 = stablehlo.abs %arg0 : tensor<4x3xf64>
    %13 = stablehlo.power %12, %arg0 : tensor<4x3xf64>
    %14 = call @sort(%arg0) : (tensor<4x3xf64>) -> tensor<4x3xf64>
    %15 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x3xf64>) -> tensor<3x4xf64>
    %16 = stablehlo.dot_general %15, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
    return %0, %3, %4, %6, %7, %8, %10, %11, %13, %14, %16 : tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>, tensor<3x3xf64>
  }
  func.func private @sort(%arg0: tensor<4x3xf64>) -> tensor<4x3xf64> {
    %0 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>):
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %1 = stablehlo.compare EQ, %arg1, %cst, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %2 = stablehlo.select %1, %cst_0, %arg1 : tensor<i1>, tensor<f64>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %cst_1 = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
      %4 = stablehlo.select %3, %cst_1, %2 : tensor<i1>, tensor<f64>
      %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %5 = stablehlo.compare EQ, %arg2, %cst_2, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
      %6 = stablehlo.select %5, %cst_3, %arg2 : tensor<i1>, tensor<f64>
      %7 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %cst_4 = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
      %8 = stablehlo.select %7, %cst_4, %6 : tensor<i1>, tensor<f64>
      %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) : (tensor<4x3xf64>) -> tensor<4x3xf64>
    return %0 : tensor<4x3xf64>
  }
}
