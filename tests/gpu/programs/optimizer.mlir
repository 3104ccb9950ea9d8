// SPDX-License-Identifier: Apache-2.0
// Steps of optimizers alone, in place: parameters of several sizes, which a GPU updates by one launch for each expression. Some have no
// multiple of 16 bytes, or no whole vector.
module @optimizer {
  func.func @train(%x: tensor<4x1xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %step = tessera.step : tensor<i64>
    %scale = tessera.constant dense<0.7> : tensor<f32>
    %a = tessera.param "a" init = #tessera.normal<0.0, 1.0> : tensor<300x300xf32>
    %b = tessera.param "b" init = #tessera.normal<0.0, 1.0> : tensor<70000xf32>
    %c = tessera.param "c" init = #tessera.normal<0.0, 1.0> : tensor<70001xf32>
    %d = tessera.param "d" init = #tessera.normal<0.0, 1.0> : tensor<8x16x601xf32>
    %e = tessera.param "e" init = #tessera.normal<0.0, 1.0> : tensor<80003xf32>
    %f = tessera.param "f" init = #tessera.normal<0.0, 1.0> : tensor<300x300xf32>
    %am = tessera.param "am" init = #tessera.constant<0.0> : tensor<300x300xf32>
    %bm = tessera.param "bm" init = #tessera.constant<0.0> : tensor<70000xf32>
    %cm = tessera.param "cm" init = #tessera.constant<0.0> : tensor<70001xf32>
    %dm = tessera.param "dm" init = #tessera.constant<0.0> : tensor<8x16x601xf32>
    %em = tessera.param "em" init = #tessera.constant<0.0> : tensor<80003xf32>
    %fm = tessera.param "fm" init = #tessera.constant<0.0> : tensor<300x300xf32>
    %av = tessera.param "av" init = #tessera.constant<0.0> : tensor<300x300xf32>
    %bv = tessera.param "bv" init = #tessera.constant<0.0> : tensor<70000xf32>
    %cv = tessera.param "cv" init = #tessera.constant<0.0> : tensor<70001xf32>
    %dv = tessera.param "dv" init = #tessera.constant<0.0> : tensor<8x16x601xf32>
    %ev = tessera.param "ev" init = #tessera.constant<0.0> : tensor<80003xf32>
    %a1:3 = tessera.adamw %a, %a, %am, %av, %step, %scale {optimizer = #tessera.adamw<lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1.0e-8, weight_decay = 0.1>}
        : tensor<300x300xf32>, tensor<i64>, tensor<f32>
    %b1:3 = tessera.adamw %b, %b, %bm, %bv, %step, %scale {optimizer = #tessera.adamw<lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1.0e-8, weight_decay = 0.1>}
        : tensor<70000xf32>, tensor<i64>, tensor<f32>
    %c1:3 = tessera.adamw %c, %c, %cm, %cv, %step, %scale {optimizer = #tessera.adamw<lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1.0e-8, weight_decay = 0.1>}
        : tensor<70001xf32>, tensor<i64>, tensor<f32>
    %d1:3 = tessera.adamw %d, %d, %dm, %dv, %step, %scale {optimizer = #tessera.adamw<lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1.0e-8, weight_decay = 0.1>}
        : tensor<8x16x601xf32>, tensor<i64>, tensor<f32>
    %e1:3 = tessera.adamw %e, %e, %em, %ev, %step, %scale {optimizer = #tessera.adamw<lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1.0e-8, weight_decay = 0.1>}
        : tensor<80003xf32>, tensor<i64>, tensor<f32>
    %f1:2 = tessera.sgd %f, %f, %fm, %scale {optimizer = #tessera.sgd<lr = 0.01, momentum = 0.9, weight_decay = 0.1>} : (tensor<300x300xf32>, tensor<300x300xf32>, tensor<300x300xf32>, tensor<f32>)
    tessera.assign %a1#0 to "a" : tensor<300x300xf32>
    tessera.assign %a1#1 to "am" : tensor<300x300xf32>
    tessera.assign %a1#2 to "av" : tensor<300x300xf32>
    tessera.assign %b1#0 to "b" : tensor<70000xf32>
    tessera.assign %b1#1 to "bm" : tensor<70000xf32>
    tessera.assign %b1#2 to "bv" : tensor<70000xf32>
    tessera.assign %c1#0 to "c" : tensor<70001xf32>
    tessera.assign %c1#1 to "cm" : tensor<70001xf32>
    tessera.assign %c1#2 to "cv" : tensor<70001xf32>
    tessera.assign %d1#0 to "d" : tensor<8x16x601xf32>
    tessera.assign %d1#1 to "dm" : tensor<8x16x601xf32>
    tessera.assign %d1#2 to "dv" : tensor<8x16x601xf32>
    tessera.assign %e1#0 to "e" : tensor<80003xf32>
    tessera.assign %e1#1 to "em" : tensor<80003xf32>
    tessera.assign %e1#2 to "ev" : tensor<80003xf32>
    tessera.assign %f1#0 to "f" : tensor<300x300xf32>
    tessera.assign %f1#1 to "fm" : tensor<300x300xf32>
    %loss = tessera.sum %x {axes = [0, 1]} : tensor<4x1xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}
