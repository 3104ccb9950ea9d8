// SPDX-License-Identifier: Apache-2.0
// A tile whose code spills, or that the assembler makes something else of, gives way to the next one; without any, to the portable family.
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-narrow --dump tile | FileCheck %s --check-prefix=NARROW
// RUN: tessera-aot build %s -o %t.tsb --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-lossy --dump tile | FileCheck %s --check-prefix=NARROW
// What the assembler says of the chosen tile is in the bundle.
// RUN: tessera-aot inspect --kernels %t.tsb | FileCheck %s --check-prefix=INSPECT
// RUN: tessera-aot build %s --until tile --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-none --dump tile | FileCheck %s --check-prefix=NONE
// One that dies says nothing of the tile: the build ends.
// RUN: not tessera-aot build %s -o %t.tsb --target cuda:sm_90a --numerics native --ptxas %S/inputs/ptxas-killed 2>&1 | FileCheck %s --check-prefix=KILLED
// KILLED: error: {{.*}}'{{.*}}/inputs/ptxas-killed' was ended by signal 9 (KILL)

// NARROW: tile.func @k0_matmul({{.*}} tile = [{{[0-9]+}}, {{64|128}}, 64,
// NARROW: tile.mma
// NARROW-NOT: tile.good
// INSPECT: target cuda:sm_90a  1 kernel{{$}}
// INSPECT: kernel {{ *}}threads registers   shared scratch    spilt warps
// INSPECT-NEXT: k0_matmul {{ *}}{{256|384}}        99 {{ *[0-9]+}}       0        0    {{12|16}}
// NONE: tile.func @k0_matmul(
// NONE-NOT: tile.mma
func.func @product(%a: tensor<4096x1024xbf16> {tessera.name = "a"}, %b: tensor<1024x4096xbf16> {tessera.name = "b"})
    -> (tensor<4096x4096xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<4096x1024xbf16>, tensor<1024x4096xbf16>) -> tensor<4096x4096xbf16>
  return %y : tensor<4096x4096xbf16>
}
