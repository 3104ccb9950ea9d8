// RUN: tessera-opt --split-input-file -tessera-identify -tessera-autodiff %s | FileCheck %s
// RUN: tessera-opt --split-input-file -tessera-identify -tessera-autodiff -tessera-decompose -canonicalize -cse %s | FileCheck %s --check-prefix=LOWERED
// Numbers of optimizers that a run can set. Without pass tessera-identify they are constants: tessera-decompose.mlir.

// CHECK-LABEL: module @adamw
// CHECK-DAG: tessera.adamw {{.*}}tessera.group = {lr_factor = 5.000000e-01 : f64, optimizer = #tessera.adamw<lr = 0.001, weight_decay = 0.1>}, tessera.settable = ""
// CHECK-DAG: tessera.adamw {{.*}}tessera.group = {no_decay, optimizer = {{.*}}}, tessera.settable = ""
// LOWERED-LABEL: module @adamw
// LOWERED-DAG: %[[B1:.*]] = tessera.hyperparameter {key = "beta1", least = 0.000000e+00 : f64, most = 0.99999999999999988 : f64, value = 9.000000e-01 : f64} : tensor<f64>
// LOWERED-DAG: %[[B2:.*]] = tessera.hyperparameter {key = "beta2", {{.*}}, value = 0.99899999999999999 : f64} : tensor<f64>
// LOWERED-DAG: %[[LR:.*]] = tessera.hyperparameter {key = "lr", least = 0.000000e+00 : f64, most = 3.4028234663852886E+38 : f64, value = 1.000000e-03 : f64} : tensor<f64>
// LOWERED-DAG: %[[WD:.*]] = tessera.hyperparameter {key = "weight_decay", {{.*}}, value = 1.000000e-01 : f64} : tensor<f64>
// LOWERED-DAG: tessera.hyperparameter {key = "eps", {{.*}}, value = 1.000000e-08 : f64} : tensor<f32>
// LOWERED-DAG: %[[HALF:.*]] = tessera.constant dense<5.000000e-01> : tensor<f64>
// LOWERED-DAG: %[[OWN:.*]] = tessera.mul %[[LR]], %[[HALF]]
// LOWERED-DAG: tessera.mul %[[OWN]], %[[WD]]
// LOWERED-DAG: tessera.cast %[[B2]] : tensor<f64> -> tensor<f32>
// LOWERED-NOT: tessera.hyperparameter
module @adamw {
  func.func @train(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" {lr_factor = 0.5} init = #tessera.constant<1.0> : tensor<4xf32>
    %v = tessera.param "v" {no_decay} init = #tessera.constant<1.0> : tensor<4xf32>
    %y = tessera.mul %x, %w : tensor<4xf32>
    %z = tessera.mul %y, %v : tensor<4xf32>
    %l = tessera.mean %z {axes = [0]} : tensor<4xf32> -> tensor<f32>
    tessera.minimize %l {optimizer = #tessera.adamw<lr = 1.0e-3, beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.1>} : tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// Numbers without arithmetic are read in the type of the parameter; a weight decay of 0 stays left out. Clipping can be set, too.
// LOWERED-LABEL: module @sgd
// LOWERED-DAG: tessera.hyperparameter {key = "train.lr", {{.*}}, value = 1.000000e-02 : f64} : tensor<f32>
// LOWERED-DAG: tessera.hyperparameter {key = "train.momentum", {{.*}}, value = 9.000000e-01 : f64} : tensor<f32>
// LOWERED-DAG: tessera.hyperparameter {key = "train.clip_norm", least = 1.4012984643248171E-45 : f64, {{.*}}, value = 1.000000e+00 : f64} : tensor<f32>
// LOWERED-NOT: weight_decay", least
// LOWERED: func.func @step
// LOWERED-NOT: tessera.hyperparameter
module @sgd {
  func.func @train(%x: tensor<4xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
    %w = tessera.param "w" init = #tessera.constant<1.0> : tensor<4xf32>
    %y = tessera.mul %x, %w : tensor<4xf32>
    %l = tessera.mean %y {axes = [0]} : tensor<4xf32> -> tensor<f32>
    tessera.minimize %l {optimizer = #tessera.sgd<lr = 1.0e-2, momentum = 0.9>, clip_norm = 1.0} : tensor<f32>
    return %l : tensor<f32>
  }
  // Its numbers are listed, and stay constants: the entry does not train.
  func.func @step(%p: tensor<4xf32> {tessera.name = "p"}, %g: tensor<4xf32> {tessera.name = "g"}, %v: tensor<4xf32> {tessera.name = "v"})
      -> (tensor<4xf32> {tessera.name = "q"}, tensor<4xf32> {tessera.name = "u"}) attributes {tessera.entry = "infer"} {
    %q, %u = tessera.sgd %p, %g, %v {optimizer = #tessera.sgd<lr = 2.0e-2, momentum = 0.8>} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    return %q, %u : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A number of the program is listed; its value is no part of the digest.
// LOWERED-LABEL: module @own
// CHECK: module @own attributes {tessera.hyperparameters = {alpha = "0.5"}, tessera.operations = "[[OWN:[0-9a-f]*]]"}
module @own {
  func.func @train(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
    %a = tessera.hyperparameter {key = "alpha", value = 0.5} : tensor<f32>
    %y = tessera.mul %x, %a : tensor<f32>
    return %y : tensor<f32>
  }
}

// -----

// CHECK: module @other attributes {tessera.hyperparameters = {alpha = "0.25"}, tessera.operations = "[[OWN]]"}
module @other {
  func.func @train(%x: tensor<f32> {tessera.name = "x"}) -> (tensor<f32> {tessera.name = "y"}) attributes {tessera.entry = "train"} {
    %a = tessera.hyperparameter {key = "alpha", value = 0.25, least = 0.0, most = 1.0} : tensor<f32>
    %y = tessera.mul %x, %a : tensor<f32>
    return %y : tensor<f32>
  }
}
