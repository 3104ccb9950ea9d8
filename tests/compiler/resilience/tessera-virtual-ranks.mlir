// SPDX-License-Identifier: Apache-2.0
// RUN: tessera-opt -tessera-virtual-ranks -canonicalize -cse -split-input-file %s | FileCheck %s
// Without a mesh, or with one that splits no batch, nothing changes.
// RUN: tessera-opt -inline -tessera-autodiff -tessera-decompose %examples/digits/digits.mlir >%t.1
// RUN: tessera-opt -tessera-virtual-ranks %t.1 | diff %t.1 -

// A loss and a gradient: sums over the batch become sums over virtual ranks; what follows is whole.
// CHECK: module @mean attributes {tessera.mesh = {data = 2 : i64, model = 3 : i64}, tessera.virtual_ranks = 2 : i64}
module @mean attributes {tessera.mesh = {data = 2, model = 3}} {
  func.func @train(%x: tensor<8x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"})
      attributes {tessera.entry = "train"} {
    // CHECK-DAG: %[[ROWS:.*]] = tessera_sr.vrank_rows %arg0 : tensor<8x4xf32> -> tensor<4x4xf32>
    // CHECK-DAG: %[[W:.*]] = tessera.param "w"
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<4xf32>
    // CHECK: %[[P:.*]] = tessera.mul %[[ROWS]], %[[W]] : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
    %p = tessera.mul %x, %w : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
    // CHECK: %[[S:.*]] = tessera.sum %[[P]] {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>
    // CHECK: %[[LOSS:.*]] = tessera_sr.vrank_sum %[[S]] : tensor<f32> -> tensor<f32>
    %loss = tessera.sum %p {axes = [0, 1]} : tensor<8x4xf32> -> tensor<f32>
    // CHECK: %[[G:.*]] = tessera.sum %[[ROWS]] {axes = [0]} : tensor<4x4xf32> -> tensor<4xf32>
    // CHECK: %[[SUM:.*]] = tessera_sr.vrank_sum %[[G]] : tensor<4xf32> -> tensor<4xf32>
    // CHECK: %[[NEXT:.*]] = tessera.sub %[[W]], %[[SUM]]
    %g = tessera.sum %x {axes = [0]} : tensor<8x4xf32> -> tensor<4xf32>
    %next = tessera.sub %w, %g : tensor<4xf32>
    // CHECK: tessera.assign %[[NEXT]] to "w"
    tessera.assign %next to "w" : tensor<4xf32>
    // CHECK: return %[[LOSS]]
    return %loss : tensor<f32>
  }

  // Entries that do not train keep their batch.
  // CHECK-LABEL: func.func @evaluate
  // CHECK: tessera.exp %arg0 : tensor<7x4xf32>
  func.func @evaluate(%x: tensor<7x4xf32> {tessera.data = "x"}) -> (tensor<7x4xf32> {tessera.name = "y"})
      attributes {tessera.entry = "eval", tessera.rows_independent} {
    %y = tessera.exp %x : tensor<7x4xf32>
    return %y : tensor<7x4xf32>
  }
}

// -----
// A place in the batch is that of the whole batch: random numbers do not change. The number named is used, not the mesh.
module attributes {tessera.mesh = {data = 8}, tessera.virtual_ranks = 4} {
  // CHECK-LABEL: func.func @places
  func.func @places(%x: tensor<8x3xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "y"})
      attributes {tessera.entry = "train"} {
    // CHECK-DAG: %[[TWO:.*]] = tessera.constant dense<2> : tensor<i64>
    // CHECK-DAG: %[[VRANK:.*]] = tessera_sr.vrank : tensor<i64>
    // CHECK-DAG: %[[ROWS:.*]] = tessera_sr.vrank_rows %arg0 : tensor<8x3xf32> -> tensor<2x3xf32>
    // CHECK: %[[IOTA:.*]] = tessera.iota {axis = 0 : i64} : tensor<2x1xi64>
    // CHECK: %[[FIRST:.*]] = tessera.mul %[[VRANK]], %[[TWO]] : tensor<i64>
    // CHECK: %[[PLACE:.*]] = tessera.add %[[IOTA]], %[[FIRST]]
    // CHECK: tessera.philox %[[PLACE]], %{{.*}}, %{{.*}} {stream = 7 : i64} : (tensor<2x1xi64>, tensor<i64>, tensor<i64>) -> tensor<2x1xf32>
    %place = tessera.iota {axis = 0 : i64} : tensor<8x1xi64>
    %step = tessera.step : tensor<i64>
    %seed = tessera.seed : tensor<i64>
    %noise = tessera.philox %place, %step, %seed {stream = 7 : i64} : (tensor<8x1xi64>, tensor<i64>, tensor<i64>) -> tensor<8x1xf32>
    %y = tessera.mul %x, %noise : (tensor<8x3xf32>, tensor<8x1xf32>) -> tensor<8x3xf32>
    %sum = tessera.sum %y {axes = [0, 1]} : tensor<8x3xf32> -> tensor<f32>
    return %sum : tensor<f32>
  }

  // What needs all rows gets them; a dim behind the batch goes to the front and back.
  // CHECK-LABEL: func.func @sorted
  func.func @sorted(%x: tensor<8x3xf32> {tessera.data = "x"}) -> (tensor<3x8xf32> {tessera.name = "y"}, tensor<f32> {tessera.name = "top"})
      attributes {tessera.entry = "train"} {
    // CHECK: %[[ROWS:.*]] = tessera_sr.vrank_rows %arg0
    // CHECK: %[[ALL:.*]] = tessera_sr.vrank_gather %[[ROWS]] : tensor<2x3xf32> -> tensor<8x3xf32>
    // CHECK: tessera.sort %[[ALL]] {axis = 0 : i64} : tensor<8x3xf32>
    %values:2 = tessera.sort %x {axis = 0 : i64} : tensor<8x3xf32> -> (tensor<8x3xf32>, tensor<8x3xi64>)
    // CHECK: %[[T:.*]] = tessera.transpose %[[ROWS]] {permutation = [1, 0]} : tensor<2x3xf32> -> tensor<3x2xf32>
    // CHECK: %[[E:.*]] = tessera.exp %[[T]] : tensor<3x2xf32>
    // CHECK: %[[FRONT:.*]] = tessera.transpose %[[E]] {permutation = [1, 0]} : tensor<3x2xf32> -> tensor<2x3xf32>
    // CHECK: %[[GATHERED:.*]] = tessera_sr.vrank_gather %[[FRONT]] : tensor<2x3xf32> -> tensor<8x3xf32>
    // CHECK: tessera.transpose %[[GATHERED]] {permutation = [1, 0]} : tensor<8x3xf32> -> tensor<3x8xf32>
    %t = tessera.transpose %x {permutation = [1, 0]} : tensor<8x3xf32> -> tensor<3x8xf32>
    %e = tessera.exp %t : tensor<3x8xf32>
    // A maximum over the batch: of each virtual rank's.
    // CHECK: %[[MAX:.*]] = tessera.reduce_max %[[ROWS]] {axes = [0, 1]} : tensor<2x3xf32> -> tensor<f32>
    // CHECK: %[[ONE:.*]] = tessera.reshape %[[MAX]] : tensor<f32> -> tensor<1xf32>
    // CHECK: %[[MAXIMA:.*]] = tessera_sr.vrank_gather %[[ONE]] : tensor<1xf32> -> tensor<4xf32>
    // CHECK: tessera.reduce_max %[[MAXIMA]] {axes = [0]}
    %top = tessera.reduce_max %x {axes = [0, 1]} : tensor<8x3xf32> -> tensor<f32>
    %first = tessera.slice %values#0 {start = [0, 0], size = [1, 1]} : tensor<8x3xf32> -> tensor<1x1xf32>
    %scalar = tessera.reshape %first : tensor<1x1xf32> -> tensor<f32>
    %y = tessera.add %top, %scalar : tensor<f32>
    return %e, %y : tensor<3x8xf32>, tensor<f32>
  }
}

// -----
// At the barriers of a region, what virtual ranks have and what all have pass barriers of their own; what it yields is whole.
module @region attributes {tessera.virtual_ranks = 2 : i64} {
  // CHECK-LABEL: func.func @train
  func.func @train(%x: tensor<4xf32> {tessera.data = "x"}, %s: tensor<f32> {tessera.name = "s"}) -> (tensor<f32> {tessera.name = "y"})
      attributes {tessera.entry = "train"} {
    // CHECK-DAG: %[[ROWS:.*]] = tessera_sr.vrank_rows %arg0 : tensor<4xf32> -> tensor<2xf32>
    // CHECK-DAG: %[[E:.*]] = tessera_sr.enter "a"() {mode = "replay"} : () -> !async.token
    %e = tessera_sr.enter "a"() {mode = "replay"} : () -> !async.token
    // CHECK-DAG: %[[IN:.*]] = tessera_sr.barrier %[[ROWS]], %[[E]] : (tensor<2xf32>, !async.token) -> tensor<2xf32>
    // CHECK-DAG: %[[S:.*]] = tessera_sr.barrier %arg1, %[[E]] : (tensor<f32>, !async.token) -> tensor<f32>
    %in:2 = tessera_sr.barrier %x, %s, %e : (tensor<4xf32>, tensor<f32>, !async.token) -> (tensor<4xf32>, tensor<f32>)
    // CHECK: %[[P:.*]] = tessera.mul %[[IN]], %[[S]]
    %p = tessera.mul %in#0, %in#1 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    // CHECK: %[[PART:.*]] = tessera.sum %[[P]] {axes = [0]} : tensor<2xf32> -> tensor<f32>
    // CHECK: %[[SUM:.*]] = tessera_sr.vrank_sum %[[PART]]
    %sum = tessera.sum %p {axes = [0]} : tensor<4xf32> -> tensor<f32>
    // CHECK: %[[A:.*]] = tessera_sr.barrier %[[P]] : (tensor<2xf32>) -> !async.token
    // CHECK: %[[B:.*]] = tessera_sr.barrier %[[SUM]], %[[A]] : (tensor<f32>, !async.token) -> !async.token
    %out = tessera_sr.barrier %p, %sum : (tensor<4xf32>, tensor<f32>) -> !async.token
    // CHECK: %[[L:.*]] = tessera_sr.leave "a"(%[[SUM]], %[[E]], %[[B]])
    %l = tessera_sr.leave "a"(%sum, %e, %out) : (tensor<f32>, !async.token, !async.token) -> !async.token
    // CHECK-DAG: tessera_sr.barrier %[[P]], %[[L]] : (tensor<2xf32>, !async.token) -> tensor<2xf32>
    // CHECK-DAG: tessera_sr.barrier %[[SUM]], %[[L]] : (tensor<f32>, !async.token) -> tensor<f32>
    %behind:2 = tessera_sr.barrier %p, %sum, %l : (tensor<4xf32>, tensor<f32>, !async.token) -> (tensor<4xf32>, tensor<f32>)
    %more = tessera.sum %behind#0 {axes = [0]} : tensor<4xf32> -> tensor<f32>
    %y = tessera.add %behind#1, %more : tensor<f32>
    // CHECK: async.await %[[L]]
    async.await %l : !async.token
    return %y : tensor<f32>
  }
}

// -----
// A virtual rank's part of a constant is one, of any integer.
module attributes {tessera.mesh = {data = 4}} {
  // CHECK-LABEL: func.func @wide
  func.func @wide(%x: tensor<8xi64> {tessera.data = "x"}) -> (tensor<i64> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
    // CHECK-DAG: tessera.constant dense<9007199254740993> : tensor<2xi64>
    %k = tessera.constant dense<9007199254740993> : tensor<8xi64>
    %y = tessera.sub %x, %k : tensor<8xi64>
    %sum = tessera.sum %y {axes = [0]} : tensor<8xi64> -> tensor<i64>
    return %sum : tensor<i64>
  }
}

// -----
// A product of 16-bit floats that sums over the batch: the tree adds in f32, then the sum is rounded.
module attributes {tessera.numerics = "native", tessera.virtual_ranks = 2} {
  // CHECK-LABEL: func.func @narrow
  func.func @narrow(%x: tensor<8x4xbf16> {tessera.data = "x"}, %y: tensor<8x3xbf16> {tessera.data = "y"})
      -> (tensor<4x3xbf16> {tessera.name = "z"}) attributes {tessera.entry = "train"} {
    // CHECK-DAG: %[[X:.*]] = tessera_sr.vrank_rows %arg0 : tensor<8x4xbf16> -> tensor<4x4xbf16>
    // CHECK-DAG: %[[Y:.*]] = tessera_sr.vrank_rows %arg1 : tensor<8x3xbf16> -> tensor<4x3xbf16>
    // CHECK: %[[PART:.*]] = tessera.matmul %[[X]], %[[Y]] {transpose_a = true} : (tensor<4x4xbf16>, tensor<4x3xbf16>) -> tensor<4x3xbf16>
    // CHECK: %[[WIDE:.*]] = tessera.cast %[[PART]] : tensor<4x3xbf16> -> tensor<4x3xf32>
    // CHECK: %[[SUM:.*]] = tessera_sr.vrank_sum %[[WIDE]] : tensor<4x3xf32> -> tensor<4x3xf32>
    // CHECK: %[[Z:.*]] = tessera.cast %[[SUM]] : tensor<4x3xf32> -> tensor<4x3xbf16>
    // CHECK: return %[[Z]]
    %z = tessera.matmul %x, %y {transpose_a = true} : (tensor<8x4xbf16>, tensor<8x3xbf16>) -> tensor<4x3xbf16>
    return %z : tensor<4x3xbf16>
  }
}

// -----
// A parameter with a layout stays split along its experts; tokens, split along groups, are exchanged for slots of experts.
module attributes {tessera.mesh = {expert = 2}} {
  // CHECK-LABEL: func.func @experts
  func.func @experts(%x: tensor<4x6x8xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
    // CHECK-DAG: %[[W:.*]] = tessera.param "w"
    // CHECK-DAG: %[[PART:.*]] = tessera_sr.vrank_part %[[W]] : tensor<6x8x3xf32> -> tensor<3x8x3xf32>
    // CHECK-DAG: %[[ROWS:.*]] = tessera_sr.vrank_rows %arg0 : tensor<4x6x8xf32> -> tensor<2x6x8xf32>
    %w = tessera.param "w" {tessera.layout_axis = "expert"} init = #tessera.constant<0.5> : tensor<6x8x3xf32>
    // CHECK: %[[T:.*]] = tessera.transpose %[[ROWS]]
    %t = tessera.transpose %x {permutation = [1, 0, 2]} : tensor<4x6x8xf32> -> tensor<6x4x8xf32>
    // CHECK: tessera_sr.vrank_all_to_all {{.*}} : tensor<2x3x2x8xf32> -> tensor<2x3x2x8xf32>
    // CHECK: %[[P:.*]] = tessera.matmul %{{.*}}, %[[PART]] : (tensor<3x4x8xf32>, tensor<3x8x3xf32>) -> tensor<3x4x3xf32>
    %p = tessera.matmul %t, %w : (tensor<6x4x8xf32>, tensor<6x8x3xf32>) -> tensor<6x4x3xf32>
    // CHECK: %[[NEXT:.*]] = tessera.mul %[[PART]]
    %half = tessera.constant dense<0.5> : tensor<f32>
    %next = tessera.mul %w, %half : (tensor<6x8x3xf32>, tensor<f32>) -> tensor<6x8x3xf32>
    // CHECK: %[[VIEW:.*]] = tessera_sr.vrank_assemble %[[NEXT]] : tensor<3x8x3xf32> -> tensor<6x8x3xf32>
    // CHECK: tessera.assign %[[VIEW]] to "w"
    tessera.assign %next to "w" : tensor<6x8x3xf32>
    %y = tessera.sum %p {axes = [0, 1, 2]} : tensor<6x4x3xf32> -> tensor<f32>
    return %y : tensor<f32>
  }
}

// -----
// The vocabulary is split: a lookup of the virtual rank's own rows, whose sum is split along rows; classes of the loss.
module attributes {tessera.mesh = {model = 2}} {
  // CHECK-LABEL: func.func @vocabulary
  func.func @vocabulary(%x: tensor<4x6xi64> {tessera.data = "x"}, %labels: tensor<24xi64> {tessera.name = "l"}) -> (tensor<24xf32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
    // CHECK-DAG: %[[W:.*]] = tessera.param "w"
    // CHECK-DAG: %[[PART:.*]] = tessera_sr.vrank_part %[[W]] : tensor<10x8xf32> -> tensor<5x8xf32>
    // CHECK-DAG: %[[IDS:.*]] = tessera_sr.vrank_gather %{{.*}} : tensor<2x6xi64> -> tensor<4x6xi64>
    %w = tessera.param "w" {tessera.layout_axis = "model"} init = #tessera.constant<0.5> : tensor<10x8xf32>
    // CHECK: tessera.gather %[[PART]], %{{.*}} {axis = 0 : i64} : (tensor<5x8xf32>, tensor<4x6xi64>)
    %e = tessera.gather %w, %x {axis = 0} : (tensor<10x8xf32>, tensor<4x6xi64>) -> tensor<4x6x8xf32>
    // CHECK: tessera_sr.vrank_all_to_all {{.*}} : tensor<2x2x6x8xf32> -> tensor<2x2x6x8xf32>
    // CHECK: tessera.relu {{.*}} : tensor<2x6x8xf32>
    %r = tessera.relu %e : tensor<4x6x8xf32>
    %f = tessera.reshape %r : tensor<4x6x8xf32> -> tensor<24x8xf32>
    // CHECK: tessera_sr.vrank_gather %{{.*}} : tensor<12x8xf32> -> tensor<24x8xf32>
    // CHECK: %[[Z:.*]] = tessera.matmul %{{.*}}, %[[PART]] {transpose_b = true} : (tensor<24x8xf32>, tensor<5x8xf32>) -> tensor<24x5xf32>
    %z = tessera.matmul %f, %w {transpose_b = true} : (tensor<24x8xf32>, tensor<10x8xf32>) -> tensor<24x10xf32>
    // CHECK: tessera.reduce_max %[[Z]] {axes = [1]} : tensor<24x5xf32> -> tensor<24xf32>
    // CHECK: tessera_sr.vrank_sum %{{.*}} : tensor<24xf32> -> tensor<24xf32>
    // CHECK-NOT: tessera.cross_entropy
    %y = tessera.cross_entropy %z, %labels : (tensor<24x10xf32>, tensor<24xi64>) -> tensor<24xf32>
    return %y : tensor<24xf32>
  }
}
