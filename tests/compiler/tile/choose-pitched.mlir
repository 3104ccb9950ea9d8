// SPDX-License-Identifier: Apache-2.0
// Groups that were made for pitches get other tiles where their code spills; without any, nothing has a pitch.
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-narrow --dump tile | FileCheck %s --check-prefix=NARROW
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-none --dump tile | FileCheck %s --check-prefix=NONE
// NARROW-DAG: tile.func @k0_matmul({{.*}}, %arg2: memref<4096x1096xbf16>){{.*}} tile = [{{[0-9]+}}, {{64|128}}, 64,
// NARROW-DAG: tile.func @k0_matmul_pitched({{.*}}, %arg2: memref<4096x1096xbf16, strided<[1152, 1]>>){{.*}} tile = [{{[0-9]+}}, {{64|128}}, 64,
// NARROW-DAG: tile.func @k0_matmul_pitched_2({{.*}}strided<[1152, 1]>>, %arg2: memref<4096x1096xbf16>){{.*}} tile = [{{[0-9]+}}, {{64|128}}, 64,
// NONE-NOT: strided<
// NONE-NOT: tile.mma
func.func @chain(%x: tensor<4096x1024xbf16> {tessera.name = "x"}, %u: tensor<1024x1096xbf16> {tessera.name = "u"}, %v: tensor<1024x1096xbf16> {tessera.name = "v"}, %w: tensor<1096x1024xbf16> {tessera.name = "w"})
    -> (tensor<4096x1096xbf16> {tessera.name = "a"}, tensor<4096x1024xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %a = tessera.matmul %x, %u : (tensor<4096x1024xbf16>, tensor<1024x1096xbf16>) -> tensor<4096x1096xbf16>
  %b = tessera.matmul %x, %v : (tensor<4096x1024xbf16>, tensor<1024x1096xbf16>) -> tensor<4096x1096xbf16>
  %y = tessera.matmul %b, %w : (tensor<4096x1096xbf16>, tensor<1096x1024xbf16>) -> tensor<4096x1024xbf16>
  return %a, %y : tensor<4096x1096xbf16>, tensor<4096x1024xbf16>
}
func.func @prepacked(%x: tensor<4096x1024xbf16> {tessera.name = "px"}) -> (tensor<4096x1096xbf16> {tessera.name = "py"}) attributes {tessera.entry = "infer"} {
  %v = tessera.param "pv" init = #tessera.uniform<-1.0, 1.0> : tensor<1024x1096xf32>
  %a = tessera.cast %v : tensor<1024x1096xf32> -> tensor<1024x1096xbf16>
  %y = tessera.matmul %x, %a : (tensor<4096x1024xbf16>, tensor<1024x1096xbf16>) -> tensor<4096x1096xbf16>
  return %y : tensor<4096x1096xbf16>
}
