// SPDX-License-Identifier: Apache-2.0
// Every op of Target IR's host side prints as it is written, in pretty and generic form.
// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -mlir-print-op-generic %s | tessera-opt | FileCheck %s

// CHECK: module @device
module @device {
  tile.func @add(%a: memref<64xf32>, %b: memref<64xf32>, %y: memref<64xf32>) grid 1 {
    tile.return
  }
  tile.func @k0(%x: memref<64xi8>, %w: memref<64xf32>, %y: memref<64xf32>) grid 4 {
    tile.return
  }
  tile.func @p0(%w: memref<64xf32>, %p: memref<64xf32>) grid 2 {
    tile.return
  }
}

// CHECK: tessera_target.kernel @k0 : (memref<64xi8>, memref<64xf32>) -> memref<64xf32> grid 4
// CHECK-SAME: bytes = 512 : i64, faults, flops = 64 : i64, in_place = [1]
tessera_target.kernel @k0 : (memref<64xi8>, memref<64xf32>) -> memref<64xf32> grid 4
    {bytes = 512 : i64, faults, flops = 64 : i64, in_place = [1]}

// CHECK: tessera_target.kernel @p0 : (memref<64xf32>) -> memref<64xf32> grid 2 {prepacks}
tessera_target.kernel @p0 : (memref<64xf32>) -> memref<64xf32> grid 2 {prepacks}

// CHECK: tessera_target.func @infer workspace 256 {
tessera_target.func @infer workspace 256 {
  // CHECK: %[[W:.*]] = tessera_target.tensor "w" : memref<64xf32>
  %w = tessera_target.tensor "w" : memref<64xf32>
  // CHECK: %[[X:.*]] = tessera_target.input 0 : memref<64xui8>
  %x = tessera_target.input 0 : memref<64xui8>
  // CHECK: %[[H:.*]] = tessera_target.alloc offset 0 : memref<64xf32>
  %h = tessera_target.alloc offset 0 : memref<64xf32>
  // CHECK: %[[Y:.*]] = tessera_target.output 0 : memref<64xf32>
  %y = tessera_target.output 0 : memref<64xf32>
  // CHECK: %[[P:.*]] = tessera_target.prepacked 0 : memref<64xf32>
  %p = tessera_target.prepacked 0 : memref<64xf32>
  // CHECK: tessera_target.launch @p0(%[[W]]) writes(%[[P]]) : (memref<64xf32>) -> memref<64xf32>
  tessera_target.launch @p0(%w) writes(%p) : (memref<64xf32>) -> memref<64xf32>
  // CHECK: tessera_target.launch @k0(%[[X]], %[[W]]) writes(%[[H]]) : (memref<64xui8>, memref<64xf32>) -> memref<64xf32>
  tessera_target.launch @k0(%x, %w) writes(%h) : (memref<64xui8>, memref<64xf32>) -> memref<64xf32>
  // CHECK: tessera_target.verify %[[H]] {high = 1.000000e+00 : f64, low = -1.000000e+00 : f64} : memref<64xf32>
  tessera_target.verify %h {low = -1.0, high = 1.0} : memref<64xf32>
  // CHECK: tessera_target.copy %[[Y]], %[[H]] : memref<64xf32>
  tessera_target.copy %y, %h : memref<64xf32>
}

// What must happen in order is tied by tokens.
// CHECK: tessera_target.func @step workspace 256 attributes {on_recovery = @mend} {
tessera_target.func @step workspace 256 attributes {on_recovery = @mend} {
  // CHECK: %[[W:.*]] = tessera_target.tensor "w"
  %w = tessera_target.tensor "w" : memref<64xf32>
  // CHECK: %[[A:.*]] = tessera_target.alloc offset 0
  %a = tessera_target.alloc offset 0 : memref<64xf32>
  // CHECK: %[[I:.*]] = tessera_target.import "stage" to(%[[A]] : memref<64xf32>) from(%[[W]] : memref<64xf32>){{$}}
  %i = tessera_target.import "stage" to(%a : memref<64xf32>) from(%w : memref<64xf32>)
  // CHECK: %[[E:.*]] = tessera_target.enter "stage" mode "replay" on_failure @mend after(%[[I]])
  %e = tessera_target.enter "stage" mode "replay" on_failure @mend after(%i)
  // CHECK: %[[L:.*]] = tessera_target.leave "stage" after(%[[E]]) checks(%[[A]] : memref<64xf32>)
  %l = tessera_target.leave "stage" after(%e) checks(%a : memref<64xf32>)
  // CHECK: %[[T:.*]] = tessera_target.export "stage" to(%[[W]] : memref<64xf32>) from(%[[A]] : memref<64xf32>) after(%[[L]])
  %t = tessera_target.export "stage" to(%w : memref<64xf32>) from(%a : memref<64xf32>) after(%l)
  // CHECK: tessera_target.await %[[T]]
  tessera_target.await %t
}

// What waits in the host's memory.
// CHECK: tessera_target.func @offloaded workspace 256 {
tessera_target.func @offloaded workspace 256 {
  // CHECK: %[[H:.*]] = tessera_target.host_alloc offset 64 : memref<64xf32>
  %h = tessera_target.host_alloc offset 64 : memref<64xf32>
  // CHECK: %[[X:.*]] = tessera_target.alloc offset 0
  %x = tessera_target.alloc offset 0 : memref<64xf32>
  // CHECK: %[[T:.*]] = tessera_target.offload %[[H]], %[[X]] : memref<64xf32>
  %t = tessera_target.offload %h, %x : memref<64xf32>
  // CHECK: tessera_target.await %[[T]]
  tessera_target.await %t
  // CHECK: %[[U:.*]] = tessera_target.prefetch %[[X]], %[[H]] : memref<64xf32>
  %u = tessera_target.prefetch %x, %h : memref<64xf32>
  // CHECK: tessera_target.await %[[U]]
  tessera_target.await %u
}

// CHECK: tessera_target.kernel @add
tessera_target.kernel @add : (memref<64xf32>, memref<64xf32>) -> memref<64xf32> grid 1
// CHECK: tessera_target.func @vranks workspace 512 {
tessera_target.func @vranks workspace 512 {
  // CHECK: %[[NUMBER:.*]] = tessera_target.vrank_number : memref<i64>
  %number = tessera_target.vrank_number : memref<i64>
  // CHECK: %[[PART:.*]] = tessera_target.vrank_alloc offset 64 : memref<64xf32>
  %part = tessera_target.vrank_alloc offset 64 : memref<64xf32>
  // CHECK: %[[SUM:.*]] = tessera_target.sum_alloc offset 0 : memref<64xf32>
  %sum = tessera_target.sum_alloc offset 0 : memref<64xf32>
  %all = tessera_target.alloc offset 0 : memref<128xf32>
  // CHECK: tessera_target.each_vrank 2
  tessera_target.each_vrank 2
  // CHECK: tessera_target.vrank_sum @add(%[[SUM]], %[[PART]]) : memref<64xf32>
  tessera_target.vrank_sum @add(%sum, %part) : memref<64xf32>
  // CHECK: tessera_target.vrank_gather %{{.*}}, %[[PART]] : memref<128xf32>, memref<64xf32>
  tessera_target.vrank_gather %all, %part : memref<128xf32>, memref<64xf32>
}

// CHECK: tessera_target.func @loops workspace 512 {
tessera_target.func @loops workspace 512 {
  %x = tessera_target.input 0 : memref<2x64xf32>
  %slice = tessera_target.alloc offset 0 : memref<64xf32>
  %holds = tessera_target.alloc offset 256 : memref<i1>
  // CHECK: tessera_target.control "repeat" {commands = 3 : i64, times = 2 : i64}
  tessera_target.control "repeat" {commands = 3 : i64, times = 2 : i64}
  // CHECK: tessera_target.control "take"(%{{.*}}, %{{.*}} : memref<64xf32>, memref<2x64xf32>) {reverse}
  tessera_target.control "take"(%slice, %x : memref<64xf32>, memref<2x64xf32>) {reverse}
  // CHECK: tessera_target.control "stop"(%[[HOLDS:.*]] : memref<i1>)
  tessera_target.control "stop"(%holds : memref<i1>)
  // CHECK: tessera_target.control "when"(%[[HOLDS]] : memref<i1>) {commands = 1 : i64}
  tessera_target.control "when"(%holds : memref<i1>) {commands = 1 : i64}
}

// CHECK: tessera_target.func @parts workspace 256 {
tessera_target.func @parts workspace 256 {
  // CHECK: %[[OWN:.*]] = tessera_target.tensor_part "w" : memref<16xf32>
  %own = tessera_target.tensor_part "w" : memref<16xf32>
  %whole = tessera_target.tensor "w" : memref<64xf32>
  %sum = tessera_target.sum_alloc offset 0 : memref<64xf32>
  %part = tessera_target.vrank_alloc offset 0 : memref<16xf32>
  // CHECK: tessera_target.collective "slice" %{{.*}}, %{{.*}} over "virtual_ranks" ranks 4 : memref<16xf32>, memref<64xf32>
  tessera_target.collective "slice" %part, %sum over "virtual_ranks" ranks 4 : memref<16xf32>, memref<64xf32>
  // CHECK: tessera_target.collective "all_gather" %{{.*}}, %[[OWN]] over "virtual_ranks" ranks 4 : memref<64xf32>, memref<16xf32>
  tessera_target.collective "all_gather" %whole, %own over "virtual_ranks" ranks 4 : memref<64xf32>, memref<16xf32>
  %place = tessera_target.alloc offset 0 : memref<64xf32>
  // CHECK: tessera_target.each_vrank 2
  tessera_target.each_vrank 2
  // CHECK-NEXT: tessera_target.collective "all_gather" %{{.*}}, %[[OWN]] over "virtual_ranks" ranks 4 : memref<64xf32>, memref<16xf32>
  tessera_target.collective "all_gather" %place, %own over "virtual_ranks" ranks 4 : memref<64xf32>, memref<16xf32>
  tessera_target.vrank_sum @add(%sum, %place) : memref<64xf32>
}

// CHECK: tessera_target.data "w" dense<1.000000e+00> : tensor<64xf32>
tessera_target.data "w" dense<1.0> : tensor<64xf32>
// CHECK: tessera_target.document "name" "a \22model\22\0A"
tessera_target.document "name" "a \"model\"\n"
