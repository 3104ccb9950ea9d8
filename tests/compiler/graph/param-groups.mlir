// RUN: tessera-opt %s --tessera-autodiff | FileCheck %s
// RUN: tessera-opt %s | tessera-opt | FileCheck %s --check-prefix=PRINT

// A frozen parameter gets no gradient and no step; the others get the optimizer of their group.
// PRINT: tessera.param "w" {frozen}
// PRINT: tessera.param "b" {lr_factor = 5.000000e-01 : f64, no_decay}
// CHECK-LABEL: func.func @train
// CHECK-NOT: "w.adam_m"
// CHECK: tessera.adamw {{.*}}lr = 0.125, {{.*}}weight_decay = 0.0>
// CHECK-NEXT: tessera.assign {{.*}} to "b"
// CHECK-NOT: to "w"
func.func @train(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" {frozen} init = #tessera.constant<1.0> : tensor<4xf32>
  %b = tessera.param "b" {lr_factor = 0.5, no_decay} init = #tessera.constant<0.0> : tensor<4xf32>
  %m = tessera.mul %x, %w : tensor<4xf32>
  %y = tessera.add %m, %b : tensor<4xf32>
  %s = tessera.mul %y, %y : tensor<4xf32>
  %loss = tessera.mean %s {axes = [0]} : tensor<4xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.adamw<lr = 0.25, beta1 = 0.5, beta2 = 0.5, eps = 1.0e-8, weight_decay = 0.5>} : tensor<f32>
  return %loss : tensor<f32>
}
