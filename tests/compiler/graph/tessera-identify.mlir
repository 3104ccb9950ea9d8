// RUN: tessera-opt --split-input-file -tessera-identify %s | FileCheck %s
// RUN: tessera-opt --split-input-file -tessera-identify -tessera-autodiff -tessera-identify %s | FileCheck %s --check-prefix=AGAIN
// The digests are written down: the digest of a program never changes, or states would no longer be matched.

// The numbers of the optimizer are listed, and are no part of the digest: neither here nor in the next module.
// CHECK: module @one attributes {tessera.hyperparameters = {beta1 = "0.9", beta2 = "0.999", eps = "1e-08", lr = "0.001", weight_decay = "0.1"}, tessera.operations = "[[ONE:d6f57d8220d66ed9847c194fefc94601403e71177ca085c9255aef71f221f2c2]]"}
// AGAIN: module @one attributes {tessera.hyperparameters = {beta1 = "0.9", beta2 = "0.999", eps = "1e-08", lr = "0.001", weight_decay = "0.1"}
module @one {
  func.func @train(%x: tensor<4x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<4x4xf32>
    %c = tessera.constant dense<2.0> : tensor<f32>
    %y = tessera.matmul %x, %w : tensor<4x4xf32>
    %z = tessera.mul %y, %c : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %l = tessera.mean %z {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>
    tessera.minimize %l {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.1>} : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// Other numbers, clipping, a schedule, another name of the module, numerics, targets, another init rule, a constant at another place, groups.
// CHECK: module @two attributes {
// CHECK-SAME: tessera.hyperparameters = {beta1 = "0.8", beta2 = "0.99", clip_norm = "0.5", eps = "0.1", lr = "100", lr_schedule.final = "0.30000000000000004", lr_schedule.kind = "cosine", lr_schedule.total_steps = "100", lr_schedule.warmup_steps = "10", weight_decay = "0"}
// CHECK-SAME: tessera.operations = "[[ONE]]"
module @two attributes {tessera.numerics = "native", tessera.workspace_max = 9 : i64, tessera.virtual_ranks = 2 : i64, tessera.mesh = {data = 2 : i64}} {
  func.func @train(%x: tensor<4x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train", tessera_sr.hint = "full"} {
    %another = tessera.constant dense<2.0> : tensor<f32>
    %v = tessera.param "w" init = #tessera.constant<1.0> : tensor<4x4xf32>
    %1 = tessera.matmul %x, %v {tsched.group = "g"} : tensor<4x4xf32>
    %2 = tessera.mul %1, %another {tessera_sr.segment = 0 : i64} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %3 = tessera.mean %2 {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>
    tessera.minimize %3 {optimizer = #tessera.adamw<lr = 100.0, beta1 = 0.8, beta2 = 0.99, eps = 0.1, weight_decay = 0.0>, clip_norm = 0.5, lr_schedule = {kind = "cosine", warmup_steps = 10, total_steps = 100, final = 0.30000000000000004}} : tensor<f32>
    return %3 : tensor<f32>
  }
}

// -----

// Another optimizer has other numbers, and is another program.
// CHECK: module @three
// CHECK-SAME: tessera.hyperparameters = {lr = "0.001", momentum = "0.9", weight_decay = "0"}
// CHECK-NOT: tessera.operations = "[[ONE]]"
module @three {
  func.func @train(%x: tensor<4x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<4x4xf32>
    %c = tessera.constant dense<2.0> : tensor<f32>
    %y = tessera.matmul %x, %w : tensor<4x4xf32>
    %z = tessera.mul %y, %c : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %l = tessera.mean %z {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>
    tessera.minimize %l {optimizer = #tessera.sgd<lr = 1.0e-3, momentum = 0.9, weight_decay = 0.0>} : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// So is one with another constant.
// CHECK: module @four
// CHECK-NOT: tessera.operations = "[[ONE]]"
module @four {
  func.func @train(%x: tensor<4x4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<4x4xf32>
    %c = tessera.constant dense<3.0> : tensor<f32>
    %y = tessera.matmul %x, %w : tensor<4x4xf32>
    %z = tessera.mul %y, %c : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %l = tessera.mean %z {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>
    tessera.minimize %l {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.1>} : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// The order of the ops counts: gradients of a value that is read more than once are added in it.
// CHECK: module @forward
// CHECK-SAME: tessera.operations = "[[FORWARD:f3b64e9644da1c2312ea133f4a11529e6704eb7d6078764ec595fea33fb9cc89]]"
module @forward {
  func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %a = tessera.exp %x : tensor<4xf32>
    %b = tessera.tanh %x : tensor<4xf32>
    %y = tessera.add %a, %b : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// CHECK: module @backward
// CHECK-NOT: [[FORWARD]]
module @backward {
  func.func @f(%x: tensor<4xf32> {tessera.name = "x"}) -> (tensor<4xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %b = tessera.tanh %x : tensor<4xf32>
    %a = tessera.exp %x : tensor<4xf32>
    %y = tessera.add %a, %b : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

// The order of functions does not; several optimizers have the name of their entry, and a number if the entry has several.
// CHECK: module @several
// CHECK-SAME: tessera.hyperparameters = {a.1.lr = "0.1", a.1.momentum = "0", a.1.weight_decay = "0", a.2.lr = "0.2", a.2.momentum = "0", a.2.weight_decay = "0", b.lr = "0.3", b.momentum = "0", b.weight_decay = "0"}
// CHECK-SAME: tessera.operations = "[[SEVERAL:73168c62e7abb13aee76c81634d9887fd4b23acd944437854537496cb412066b]]"
module @several {
  func.func @a() -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %v = tessera.param "v" init = #tessera.constant<1.0> : tensor<f32>
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<f32>
    tessera.minimize %v {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    tessera.minimize %w {optimizer = #tessera.sgd<lr = 0.2, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %v : tensor<f32>
  }
  func.func @b() -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<f32>
    tessera.minimize %w {optimizer = #tessera.sgd<lr = 0.3, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %w : tensor<f32>
  }
}

// -----

// CHECK: module @swapped
// CHECK-SAME: tessera.operations = "[[SEVERAL]]"
module @swapped {
  func.func @b() -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<f32>
    tessera.minimize %w {optimizer = #tessera.sgd<lr = 0.5, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %w : tensor<f32>
  }
  func.func @a() -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %v = tessera.param "v" init = #tessera.constant<1.0> : tensor<f32>
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<f32>
    tessera.minimize %v {optimizer = #tessera.sgd<lr = 0.5, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    tessera.minimize %w {optimizer = #tessera.sgd<lr = 0.5, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
    return %v : tensor<f32>
  }
}

// -----

// What is in regions counts.
// CHECK: module @less
// CHECK-SAME: tessera.operations = "[[LESS:b4736d98f7402381b856e0a111e78ee4fc163330d41f5d4fab9184cb9359ab05]]"
module @less {
  func.func @f(%x: tensor<i64> {tessera.name = "x"}) -> (tensor<i64> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %y = tessera.while %x {
    ^bb0(%a: tensor<i64>):
      %end = tessera.constant dense<9> : tensor<i64>
      %c = tessera.compare lt %a, %end : tensor<i64> -> tensor<i1>
      tessera.yield %c : tensor<i1>
    } do {
    ^bb0(%a: tensor<i64>):
      %n = tessera.add %a, %a : tensor<i64>
      tessera.yield %n : tensor<i64>
    } {limit = 20 : i64} : tensor<i64> -> tensor<i64>
    return %y : tensor<i64>
  }
}

// -----

// CHECK: module @less_or_equal
// CHECK-NOT: [[LESS]]
module @less_or_equal {
  func.func @f(%x: tensor<i64> {tessera.name = "x"}) -> (tensor<i64> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %y = tessera.while %x {
    ^bb0(%a: tensor<i64>):
      %end = tessera.constant dense<9> : tensor<i64>
      %c = tessera.compare le %a, %end : tensor<i64> -> tensor<i1>
      tessera.yield %c : tensor<i1>
    } do {
    ^bb0(%a: tensor<i64>):
      %n = tessera.add %a, %a : tensor<i64>
      tessera.yield %n : tensor<i64>
    } {limit = 20 : i64} : tensor<i64> -> tensor<i64>
    return %y : tensor<i64>
  }
}

// -----

// The elements of a large constant, by their digest.
// CHECK: module @elements
// CHECK-SAME: tessera.operations = "[[ELEMENTS:4649a628403578b36909b4e8bccd38c74aada75eb16448d9ada1efe39df324fa]]"
module @elements {
  func.func @f(%x: tensor<3xf32> {tessera.name = "x"}) -> (tensor<3xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %c = tessera.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %y = tessera.add %x, %c : tensor<3xf32>
    return %y : tensor<3xf32>
  }
}

// -----

// CHECK: module @other_elements
// CHECK-NOT: [[ELEMENTS]]
module @other_elements {
  func.func @f(%x: tensor<3xf32> {tessera.name = "x"}) -> (tensor<3xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %c = tessera.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>
    %y = tessera.add %x, %c : tensor<3xf32>
    return %y : tensor<3xf32>
  }
}
