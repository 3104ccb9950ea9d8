// SPDX-License-Identifier: Apache-2.0
// The step of tessera-sr-pipeline.mlir without what it asks of scaling and resilience; and data for both.
func.func @train(%x: tensor<8x16xf32> {tessera.data = "x"}) -> (tensor<f32> {tessera.name = "loss"}) attributes {tessera.entry = "train"} {
  %w = tessera.param "w" init = #tessera.uniform<-0.5, 0.5> : tensor<16x16xf32>
  %h = tessera.matmul %x, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %1 = tessera.exp %h : tensor<8x16xf32>
  %2 = tessera.tanh %1 : tensor<8x16xf32>
  %3 = tessera.exp %2 : tensor<8x16xf32>
  %loss = tessera.mean %3 {axes = [0, 1]} : tensor<8x16xf32> -> tensor<f32>
  tessera.minimize %loss {optimizer = #tessera.sgd<lr = 1.0, momentum = 0.0, weight_decay = 0.0>} : tensor<f32>
  return %loss : tensor<f32>
}
func.func @data() -> (tensor<24x16xf32> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
  %i = tessera.iota {axis = 0 : i64} : tensor<24x16xf32>
  %j = tessera.iota {axis = 1 : i64} : tensor<24x16xf32>
  %c = tessera.constant dense<0.0137> : tensor<f32>
  %0 = tessera.mul %i, %j : tensor<24x16xf32>
  %1 = tessera.mul %0, %c : (tensor<24x16xf32>, tensor<f32>) -> tensor<24x16xf32>
  %x = tessera.erf %1 : tensor<24x16xf32>
  return %x : tensor<24x16xf32>
}
