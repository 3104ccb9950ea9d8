// SPDX-License-Identifier: Apache-2.0
// RUN: not tessera-opt -split-input-file --no-output %s 2>&1 | FileCheck %s

// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: grid is 0; expected 1 to 9223372036854775807
tessera_target.kernel @k : () -> memref<4xf32> grid 0

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: it writes nothing
tessera_target.kernel @k : (memref<4xf32>) -> () grid 1

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: argument 0 is neither a static, dense buffer nor a buffer with a pitch
tessera_target.kernel @k : (tensor<4xf32>) -> memref<4xf32> grid 1

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: argument 1 is neither a static, dense buffer nor a buffer with a pitch
tessera_target.kernel @k : (memref<4xf32>) -> memref<?xf32> grid 1

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: in_place names input 1 of 1
tessera_target.kernel @k : (memref<4xf32>) -> memref<4xf32> grid 1 {in_place = [1]}

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: tile.segments is not [segments, inputs of one] for 1 inputs and 1 outputs
tessera_target.kernel @k : (memref<4xf32>) -> memref<4xf32> grid 1 {tile.segments = [2, 1]}

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: flops is -1; expected 0 to 9223372036854775807
tessera_target.kernel @k : () -> memref<4xf32> grid 1 {flops = -1}

// -----
module @device {}
// CHECK: [[@LINE+1]]:1: error: [TSR-0503] tessera_target.kernel: @device holds no tile.func @k
tessera_target.kernel @k : () -> memref<4xf32> grid 1

// -----
module @device { tile.func @k(%x: memref<4xf32>) grid 2 { tile.return } }
// CHECK: [[@LINE+1]]:1: error: [TSR-0503] tessera_target.kernel: @k has 1 programs; its body 2
tessera_target.kernel @k : () -> memref<4xf32> grid 1

// -----
module @device { tile.func @k(%x: memref<4xf32>) grid 1 { tile.return } }
// CHECK: [[@LINE+1]]:1: error: [TSR-0503] tessera_target.kernel: argument 0 of @k differs from its body's
tessera_target.kernel @k : () -> memref<8xf32> grid 1

// -----
module @device { tile.func @k(%x: memref<4xf32>) grid 1 { tile.return } }
// CHECK: [[@LINE+1]]:1: error: [TSR-0503] tessera_target.kernel: @k has 2 arguments; its body 1
tessera_target.kernel @k : (memref<4xf32>) -> memref<4xf32> grid 1

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.data: the tensor's name is empty
tessera_target.data "" dense<1.0> : tensor<2xf32>

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.data: tensor 'w' has an element type no tensor has
tessera_target.data "w" dense<1> : tensor<2xi24>

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.document: there is no document 'novel'
tessera_target.document "novel" "once"

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.func: workspace is 100; expected a multiple of 64
tessera_target.func @f workspace 100 {}

// -----
tessera_target.func @f workspace 64 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.alloc: offset is 8; expected a multiple of 64
  %h = tessera_target.alloc offset 8 : memref<4xf32>
}

// -----
tessera_target.func @f workspace 64 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.alloc: 68 bytes at offset 0 end after the workspace of 64
  %h = tessera_target.alloc offset 0 : memref<17xf32>
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.tensor: the tensor's name is empty
  %h = tessera_target.tensor "" : memref<4xf32>
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.input: index is -1; expected 0 to 255
  %h = tessera_target.input -1 : memref<4xf32>
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.output: its type is not a static, dense buffer of a tensor
  %h = tessera_target.output 0 : memref<4xi24>
}

// -----
tessera_target.func @f workspace 0 {
  %h = tessera_target.output 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.verify: low is 1, high is 0; expected them in order
  tessera_target.verify %h {low = 1.0, high = 0.0} : memref<4xf32>
}

// -----
tessera_target.func @f workspace 0 {
  %h = tessera_target.output 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.copy: copies a buffer to itself
  tessera_target.copy %h, %h : memref<4xf32>
}

// -----
tessera_target.func @f workspace 0 {
  %h = tessera_target.output 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0503] tessera_target.launch: there is no tessera_target.kernel @k
  tessera_target.launch @k() writes (%h) : () -> memref<4xf32>
}

// -----
tessera_target.kernel @k : () -> memref<4xf32> grid 1
tessera_target.func @f workspace 0 {
  %h = tessera_target.output 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0503] tessera_target.launch: 1 inputs and 1 outputs; kernel @k has 0 and 1
  tessera_target.launch @k(%h) writes (%h) : (memref<4xf32>) -> memref<4xf32>
}

// -----
tessera_target.kernel @k : () -> memref<4xf32> grid 1
tessera_target.func @f workspace 0 {
  %h = tessera_target.output 0 : memref<8xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0503] tessera_target.launch: argument 0 does not match the parameter of kernel @k
  tessera_target.launch @k() writes (%h) : () -> memref<8xf32>
}

// -----
tessera_target.kernel @k : () -> (memref<4xf32>, memref<4xf32>) grid 1
tessera_target.func @f workspace 0 {
  %h = tessera_target.output 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0503] tessera_target.launch: writes one buffer twice
  tessera_target.launch @k() writes (%h, %h) : () -> (memref<4xf32>, memref<4xf32>)
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0503] tessera_target.launch: it writes nothing
  tessera_target.launch @k() writes () : () -> ()
}

// -----
tessera_target.func @f workspace 64 {
  %c = tessera_target.alloc offset 0 : memref<i1>
  // CHECK: [[@LINE+1]]:3: error: [TSR-0502] tessera_target.control: there is no kind "until" of this op
  tessera_target.control "until"(%c : memref<i1>)
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:3: error: [TSR-0502] tessera_target.control: "stop" takes 1 buffers; it has 0
  tessera_target.control "stop"
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:3: error: [TSR-0502] tessera_target.control: -1 commands 2 times; expected at most 4194304, and no number below 0
  tessera_target.control "repeat" {commands = -1 : i64, times = 2 : i64}
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:3: error: [TSR-0502] tessera_target.each_vrank: repeats 2 commands; 1 that can be repeated follow
  tessera_target.each_vrank 2
  %part = tessera_target.vrank_alloc offset 0 : memref<4xf32>
  %whole = tessera_target.output 0 : memref<8xf32>
  tessera_target.vrank_gather %whole, %part : memref<8xf32>, memref<4xf32>
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0502] tessera_target.size: a size is a memref<i64>
  %s = tessera_target.size 0 : memref<1xi64>
  // CHECK: [[@LINE+1]]:8: error: [TSR-0502] tessera_target.vrank_number: a virtual rank's number is a memref<i64>
  %n = tessera_target.vrank_number : memref<1xi64>
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0502] tessera_target.vrank_alloc: offset is 8; expected a multiple of 64
  %p = tessera_target.vrank_alloc offset 8 : memref<4xf32>
}

// -----
tessera_target.func @f workspace 0 {
  %all = tessera_target.output 0 : memref<9xf32>
  %part = tessera_target.vrank_alloc offset 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:3: error: [TSR-0505] tessera_target.vrank_gather: dim 0 of the first operand is not a multiple of the second operand's, or another dim differs
  tessera_target.vrank_gather %all, %part : memref<9xf32>, memref<4xf32>
}

// -----
tessera_target.kernel @add : (memref<4xf32>, memref<4xf32>) -> memref<4xf32> grid 1
tessera_target.func @f workspace 0 {
  %sum = tessera_target.vrank_alloc offset 64 : memref<4xf32>
  %part = tessera_target.vrank_alloc offset 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:3: error: [TSR-0505] tessera_target.vrank_sum: its first operand, and only that, is a tessera_target.sum_alloc
  tessera_target.vrank_sum @add(%sum, %part) : memref<4xf32>
}

// -----
tessera_target.kernel @neg : (memref<4xf32>) -> memref<4xf32> grid 1
tessera_target.func @f workspace 0 {
  %sum = tessera_target.sum_alloc offset 0 : memref<4xf32>
  %part = tessera_target.vrank_alloc offset 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:3: error: [TSR-0503] tessera_target.vrank_sum: @neg is not a tessera_target.kernel that combines two buffers of this type into one
  tessera_target.vrank_sum @neg(%sum, %part) : memref<4xf32>
}

// -----
// The region's begin stands behind its end, and has no name.
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:8: error: {{.*}} tessera_target.leave: does not take the token with which its region began
  %l = "tessera_target.leave"(%t) {name = "a"} : (!tessera_target.token) -> !tessera_target.token
  %t = "tessera_target.enter"() {mode = "replay"} : () -> !tessera_target.token
}

// -----
tessera_target.func @f workspace 0 {
  %whole = tessera_target.tensor_part "w" : memref<8xf32>
  %own = tessera_target.tensor_part "w" : memref<2xf32>
  // CHECK: [[@LINE+1]]:3: error: [TSR-0505] tessera_target.collective: "all_gather" takes a tessera_target.vrank_alloc and makes a buffer that is one for all virtual ranks
  tessera_target.collective "all_gather" %whole, %own over "virtual_ranks" ranks 4 : memref<8xf32>, memref<2xf32>
}

// -----
tessera_target.func @f workspace 0 {
  %whole = tessera_target.alloc offset 0 : memref<0xf32>
  %own = tessera_target.tensor_part "w" : memref<0xf32>
  // CHECK: [[@LINE+1]]:3: error: [TSR-0505] tessera_target.collective: "slice" takes a buffer that is one for all virtual ranks and makes a tessera_target.vrank_alloc
  tessera_target.collective "slice" %own, %whole over "virtual_ranks" ranks 4 : memref<0xf32>, memref<0xf32>
}

// -----
tessera_target.kernel @k : () -> memref<4xf32> grid 1
tessera_target.func @f workspace 0 {
  %h = tessera_target.input 0 : memref<4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0503] tessera_target.launch: writes a tessera_target.input, which is read-only
  tessera_target.launch @k() writes(%h) : () -> memref<4xf32>
}

// -----
tessera_target.func @f workspace 0 {
  %h = tessera_target.output 0 : memref<i64>
  %i = tessera_target.vrank_number : memref<i64>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.copy: writes a tessera_target.vrank_number, which is read-only
  tessera_target.copy %i, %h : memref<i64>
}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.kernel: in_place names input 1 of 1
tessera_target.kernel @k : (memref<4xf32>) -> memref<4xf32> grid 1 {in_place = [1]}

// -----
// CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.data: the tensor's name is empty, too long or not text
tessera_target.data "" dense<[1.0, 2.0]> : tensor<2xf32>

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.tensor: the tensor's name is empty, too long or not text
  %w = tessera_target.tensor "" : memref<4xf32>
}

// -----
tessera_target.func @f workspace 64 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.alloc: 16 bytes at offset 64 end after the workspace of 64
  %w = tessera_target.alloc offset 64 : memref<4xf32>
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0506] tessera_target.enter: the token's name is empty, too long or not text
  %e = tessera_target.enter "" mode "replay"
}

// -----
// Rows that overlap, and columns that lie apart, are no pitch.
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: argument 0 is neither a static, dense buffer nor a buffer with a pitch
tessera_target.kernel @k : (memref<2x4xf32, strided<[3, 1]>>) -> memref<2x4xf32> grid 1

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: argument 0 is neither a static, dense buffer nor a buffer with a pitch
tessera_target.kernel @k : (memref<2x4xf32, strided<[16, 2]>>) -> memref<2x4xf32> grid 1

// -----
// CHECK: [[@LINE+1]]:1: error: [TSR-0502] tessera_target.kernel: argument 1 is neither a static, dense buffer nor a buffer with a pitch
tessera_target.kernel @k : (memref<2x4xf32>) -> memref<3x2x4xf32, strided<[20, 8, 1]>> grid 1

// -----
tessera_target.func @f workspace 64 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.alloc: 96 bytes at offset 0 end after the workspace of 64
  %h = tessera_target.alloc offset 0 : memref<3x4xf32, strided<[8, 1]>>
}

// -----
tessera_target.func @f workspace 128 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.alloc: tessera_target.copy reads or writes it, with pitch 8; expected a dense buffer
  %h = tessera_target.alloc offset 0 : memref<2x4xf32, strided<[8, 1]>>
  %y = tessera_target.alloc offset 64 : memref<2x4xf32, strided<[8, 1]>>
  tessera_target.copy %y, %h : memref<2x4xf32, strided<[8, 1]>>
}

// -----
tessera_target.func @f workspace 0 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.output: its type is not a static, dense buffer of a tensor
  %h = tessera_target.output 0 : memref<2x4xf32, strided<[8, 1]>>
}

// -----
tessera_target.kernel @k : () -> memref<2x4xf32, strided<[8, 1]>> grid 1
tessera_target.func @f workspace 64 {
  %h = tessera_target.alloc offset 0 : memref<2x4xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0503] tessera_target.launch: argument 0 does not match the parameter of kernel @k
  tessera_target.launch @k() writes (%h) : () -> memref<2x4xf32>
}

// -----
// What lies in the host's memory is copied there and back, and nothing else.
tessera_target.func @f workspace 256 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.host_alloc: tessera_target.copy reads or writes it; expected offloads that write it, prefetches that read it
  %h = tessera_target.host_alloc offset 0 : memref<64xf32>
  %x = tessera_target.alloc offset 0 : memref<64xf32>
  tessera_target.copy %x, %h : memref<64xf32>
}

// -----
tessera_target.func @f workspace 256 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.host_alloc: tessera_target.offload reads or writes it; expected offloads
  %h = tessera_target.host_alloc offset 0 : memref<64xf32>
  %x = tessera_target.alloc offset 0 : memref<64xf32>
  %t = tessera_target.offload %x, %h : memref<64xf32>
  tessera_target.await %t
}

// -----
tessera_target.func @f workspace 256 {
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.host_alloc: offset is 32; expected a multiple of 64
  %h = tessera_target.host_alloc offset 32 : memref<64xf32>
}

// -----
tessera_target.func @f workspace 256 {
  %h = tessera_target.alloc offset 0 : memref<64xf32>
  %x = tessera_target.alloc offset 0 : memref<64xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.offload: what it writes is tessera_target.alloc; expected a tessera_target.host_alloc
  %t = tessera_target.offload %h, %x : memref<64xf32>
  tessera_target.await %t
}

// -----
tessera_target.func @f workspace 256 {
  %h = tessera_target.host_alloc offset 0 : memref<64xf32>
  %y = tessera_target.output 0 : memref<64xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0502] tessera_target.prefetch: what it writes is tessera_target.output; expected a tessera_target.alloc
  %t = tessera_target.prefetch %y, %h : memref<64xf32>
  tessera_target.await %t
}

// -----
tessera_target.func @f workspace 256 {
  %h = tessera_target.host_alloc offset 0 : memref<64xf32>
  %x = tessera_target.alloc offset 0 : memref<64xf32>
  // CHECK: [[@LINE+1]]:{{.*}} error: [TSR-0506] tessera_target.offload: its token is awaited 0 times; expected once
  %t = tessera_target.offload %h, %x : memref<64xf32>
}
