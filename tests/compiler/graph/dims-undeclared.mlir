// SPDX-License-Identifier: Apache-2.0
// Symbols in attributes of an op are listed by the entry, too.
// RUN: not tessera-opt -split-input-file -tessera-verify --no-output %s 2>&1 | FileCheck %s

func.func @f(%x: tensor<?x8xf32, #tessera.dims<batch>> {tessera.name = "x"}) -> (tensor<?x4xf32, #tessera.dims<batch>> {tessera.name = "y"})
    attributes {tessera.entry = "infer", tessera.dims = ["batch"]} {
  // CHECK: [[@LINE+1]]:8: error: [TSR-0231] tessera.slice: 'batsh' is the symbol of a dim; tessera.dims of entry '@f' does not list it; did you mean 'batch'?
  %0 = tessera.slice %x {start = [0, "2*batsh"], size = ["batch", 4]} : tensor<?x8xf32, #tessera.dims<batch>> -> tensor<?x4xf32, #tessera.dims<batch>>
  return %0 : tensor<?x4xf32, #tessera.dims<batch>>
}
