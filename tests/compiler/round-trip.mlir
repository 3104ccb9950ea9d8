// RUN: tessera-opt %s --split-input-file --no-output
//
// Ops that programs do not hold, but that passes make: round_trip.c reads them from here.

func.func @collectives(%a: tensor<4x2xf32>, %b: tensor<4x2xf32>, %s: tensor<5xf32>, %t: tensor<3xf32>) {
  %0 = tessera_sr.all_reduce %a, %b {axis = "data"} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = tessera_sr.broadcast %a {axis = "data"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %2 = tessera_sr.all_gather %s, %t {axis = "data"} : (tensor<5xf32>, tensor<3xf32>) -> tensor<4x2xf32>
  %3 = tessera_sr.assemble %s, %t {axis = "data"} : (tensor<5xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  %4 = tessera_sr.reduce_scatter %a, %b {axis = "data", position = 1 : i64, begin = 5 : i64, end = 8 : i64}
      : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<3xf32>
  %5 = tessera_sr.shard_slice %a {axis = "data", position = 0 : i64, begin = 0 : i64, end = 0 : i64}
      : (tensor<4x2xf32>) -> tensor<0xf32>
  %6:2 = tessera_sr.barrier %a, %s, %t {segment = 0 : i64}
      : (tensor<4x2xf32>, tensor<5xf32>, tensor<3xf32>) -> (tensor<4x2xf32>, tensor<5xf32>)
  return
}

// -----

func.func private @mend()
func.func @tokens(%w: tensor<4xf32>, %y: tensor<4xf32>) {
  %i:2 = tessera_sr.import_begin "stage"(%w) : (tensor<4xf32>) -> (tensor<4xf32>, !async.token)
  %e = tessera_sr.enter "stage"(%i#1) {mode = "replay", on_failure = @mend} : (!async.token) -> !async.token
  %l = tessera_sr.leave "stage"(%y, %e) : (tensor<4xf32>, !async.token) -> !async.token
  %x = tessera_sr.export_begin "stage"(%y, %w, %l) : (tensor<4xf32>, tensor<4xf32>, !async.token) -> !async.token
  async.await %x : !async.token
  return
}

// -----

func.func @made(%p: tensor<4xf32>, %g: tensor<4xf32>, %v: tensor<4xf32>) {
  %0:2 = tessera.sgd %p, %g, %v {optimizer = #tessera.sgd<lr = 0.1, momentum = 0.9, weight_decay = 0.0>} : tensor<4xf32>
  %1 = tessera.iota {axis = 0 : i64} : tensor<4xi64>
  %2 = tessera.step : tensor<i64>
  %3 = tessera.seed : tensor<i64>
  %hyper = tessera.hyperparameter {key = "alpha", value = 0.5} : tensor<f64>
  %4 = tessera.philox %1, %2, %3 {stream = 7 : i64, draw = 1 : i64, normal}
      : tensor<4xi64>, tensor<i64>, tensor<i64> -> tensor<4xf32>
  %5 = tessera.philox %1, %2, %3 {stream = 7 : i64, shared} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xf64>
  return
}

// -----

tsched.func @k0_add(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32>
    attributes {kind = "map", source = "default", flops = 4 : i64, bytes = 48 : i64} {
  %0 = tessera.add %a, %b : tensor<4xf32>
  tsched.return %0 : tensor<4xf32>
}
func.func @scheduled(%a: tensor<4xf32> {tessera.name = "a"}) -> (tensor<4xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %0 = tsched.call @k0_add(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @restored() {
  %t, %v = tessera_sr.import "stage" : !tessera_sr.token, tensor<4xf32>
  return
}
tsched.func @p0_pack(%m: tensor<96x96xf32>) -> tensor<6x96x16xf32> attributes {kind = "pack", source = "default"} {
  %0 = tsched.pack %m : tensor<96x96xf32> -> tensor<6x96x16xf32>
  tsched.return %0 : tensor<6x96x16xf32>
}
tsched.func @k0_packed(%x: tensor<8x96xf32>, %s: tensor<6x96x16xf32>) -> tensor<8x96xf32> attributes {kind = "matmul", source = "default"} {
  %u = tsched.unpack %s : tensor<6x96x16xf32> -> tensor<96x96xf32>
  %0 = tessera.matmul %x, %u : (tensor<8x96xf32>, tensor<96x96xf32>) -> tensor<8x96xf32>
  tsched.return %0 : tensor<8x96xf32>
}

// -----

func.func @vranks(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>, tensor<i64>)
    attributes {tessera.entry = "train"} {
  %number = tessera_sr.vrank : tensor<i64>
  %rows = tessera_sr.vrank_rows %x : tensor<8x4xf32> -> tensor<4x4xf32>
  %sum = tessera_sr.vrank_sum %rows : tensor<4x4xf32> -> tensor<4x4xf32>
  %all = tessera_sr.vrank_gather %rows : tensor<4x4xf32> -> tensor<8x4xf32>
  %part = tessera_sr.vrank_part %sum {tessera_sr.summed} : tensor<4x4xf32> -> tensor<8xf32>
  %whole = tessera_sr.vrank_all_gather %part : tensor<8xf32> -> tensor<4x4xf32>
  %kept = tessera_sr.vrank_assemble %part : tensor<8xf32> -> tensor<4x4xf32>
  %turned = tessera_sr.vrank_all_to_all %rows : tensor<4x4xf32> -> tensor<4x4xf32>
  return %all, %sum, %number : tensor<8x4xf32>, tensor<4x4xf32>, tensor<i64>
}
