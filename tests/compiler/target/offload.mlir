// SPDX-License-Identifier: Apache-2.0
// Where a workspace would be too large, what waits long lies in the host's memory meanwhile.
// RUN: tessera-aot build %s --until target --target cuda:sm_90a --numerics native --workspace-max 4000 --dump target | FileCheck %s --check-prefix=WHOLE
// WHOLE: tessera_target.func @chain workspace 3758096384
// WHOLE-NOT: host_alloc
// WHOLE-NOT: tessera_target.offload

// Those that wait longest go, and no launch waits for a copy.
// RUN: tessera-aot build %s --until target --target cuda:sm_90a --numerics native --workspace-max 3000 --dump target | FileCheck %s --check-prefix=LONG
// LONG: tessera_target.func @chain workspace 2684354560
// LONG-DAG: %[[A:.*]] = tessera_target.host_alloc offset 0 : memref<16384x16384xbf16>
// LONG-DAG: %[[B:.*]] = tessera_target.host_alloc offset 536870912 : memref<16384x16384xbf16>
// LONG: launch @k0_matmul(%{{.*}}) writes(%[[X:[0-9]+]])
// LONG: launch @k0_matmul(%[[X]], %{{.*}}) writes(%[[Y:[0-9]+]])
// LONG-NEXT: %[[T:.*]] = tessera_target.offload %[[A]], %[[X]] : memref<16384x16384xbf16>
// LONG-NEXT: launch
// LONG-NEXT: %[[U:.*]] = tessera_target.offload %[[B]], %[[Y]]
// LONG-NEXT: await %[[T]]
// LONG-NEXT: launch
// LONG-NEXT: await %[[U]]
// LONG-NEXT: launch
// LONG-NEXT: launch
// LONG-NEXT: launch
// LONG-NEXT: launch
// LONG-NEXT: %[[V:.*]] = tessera_target.prefetch %[[Z:.*]], %[[B]]
// LONG-NEXT: launch
// LONG-NEXT: %[[W:.*]] = tessera_target.prefetch %[[Q:.*]], %[[A]]
// LONG-NEXT: await %[[V]]
// LONG-NEXT: launch @k0_matmul(%{{.*}}, %[[Z]])
// LONG-NEXT: await %[[W]]
// LONG-NEXT: launch @k0_matmul(%{{.*}}, %[[Q]])

// With less, launches wait.
// RUN: tessera-aot build %s --until target --target cuda:sm_90a --numerics native --workspace-max 1536 --dump target | FileCheck %s --check-prefix=SHORT
// SHORT: tessera_target.func @chain workspace 1610612736
// SHORT-COUNT-4: tessera_target.offload
// SHORT: %[[T:.*]] = tessera_target.prefetch %[[Z:.*]], %
// SHORT-NEXT: await %[[T]]
// SHORT-NEXT: launch @k0_matmul(%{{.*}}, %[[Z]])

// A product has three matrices.
// RUN: not tessera-aot build %s -o %t.tsb --target cuda:sm_90a --numerics native --workspace-max 1535 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: @chain needs 3758096384 bytes of workspace, 1610612736 with all possible values offloaded to host memory; at most 1609564160 are allowed

// A CPU has one memory.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --workspace-max 1535 --dump target | FileCheck %s --check-prefix=CPU
// CPU: tessera_target.func @chain workspace
// CPU-NOT: tessera_target.offload

// What a bundle was built with is told.
// RUN: tessera-aot provenance %t.tsb | FileCheck %s --check-prefix=SAID
// SAID: "workspace_max":"1609564160"
func.func @chain(%x: tensor<16384x16384xbf16> {tessera.name = "x"}, %w: tensor<16384x16384xbf16> {tessera.name = "w"})
    -> (tensor<16384x16384xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %a0 = tessera.matmul %x, %w : tensor<16384x16384xbf16>
  %a1 = tessera.matmul %a0, %w : tensor<16384x16384xbf16>
  %a2 = tessera.matmul %a1, %w : tensor<16384x16384xbf16>
  %a3 = tessera.matmul %a2, %w : tensor<16384x16384xbf16>
  %a4 = tessera.matmul %a3, %w : tensor<16384x16384xbf16>
  %a5 = tessera.matmul %a4, %w : tensor<16384x16384xbf16>
  %b4 = tessera.matmul %a5, %a4 : tensor<16384x16384xbf16>
  %b3 = tessera.matmul %b4, %a3 : tensor<16384x16384xbf16>
  %b2 = tessera.matmul %b3, %a2 : tensor<16384x16384xbf16>
  %b1 = tessera.matmul %b2, %a1 : tensor<16384x16384xbf16>
  %b0 = tessera.matmul %b1, %a0 : tensor<16384x16384xbf16>
  return %b0 : tensor<16384x16384xbf16>
}
