// Entries of every element type, for the tests of the Python package: sums of an input with itself, rows by index, a choice by booleans.
module @arrays {
  func.func @twice_f64(%x: tensor<4x5xf64> {tessera.name = "x"}) -> (tensor<4x5xf64> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %0 = tessera.add %x, %x : tensor<4x5xf64>
    return %0 : tensor<4x5xf64>
  }
  func.func @twice_f32(%x: tensor<4x5xf32> {tessera.name = "x"}) -> (tensor<4x5xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %0 = tessera.add %x, %x : tensor<4x5xf32>
    return %0 : tensor<4x5xf32>
  }
  func.func @twice_f16(%x: tensor<4x5xf16> {tessera.name = "x"}) -> (tensor<4x5xf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %0 = tessera.add %x, %x : tensor<4x5xf16>
    return %0 : tensor<4x5xf16>
  }
  func.func @twice_bf16(%x: tensor<4x5xbf16> {tessera.name = "x"}) -> (tensor<4x5xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %0 = tessera.add %x, %x : tensor<4x5xbf16>
    return %0 : tensor<4x5xbf16>
  }
  func.func @twice_i64(%x: tensor<4x5xi64> {tessera.name = "x"}) -> (tensor<4x5xi64> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %0 = tessera.add %x, %x : tensor<4x5xi64>
    return %0 : tensor<4x5xi64>
  }
  func.func @twice_i32(%x: tensor<4x5xi32> {tessera.name = "x"}) -> (tensor<4x5xi32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %0 = tessera.add %x, %x : tensor<4x5xi32>
    return %0 : tensor<4x5xi32>
  }
  func.func @cast_ui8(%x: tensor<4x5xui8> {tessera.name = "x"}) -> (tensor<4x5xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %0 = tessera.cast %x : tensor<4x5xui8> -> tensor<4x5xf32>
    return %0 : tensor<4x5xf32>
  }
  func.func @choose(%m: tensor<4x5xi1> {tessera.name = "m"}, %a: tensor<4x5xf32> {tessera.name = "a"}, %b: tensor<4x5xf32> {tessera.name = "b"})
      -> (tensor<4x5xf32> {tessera.name = "y"}, tensor<4x5xi1> {tessera.name = "not"}) attributes {tessera.entry = "infer"} {
    %0 = tessera.where %m, %a, %b : (tensor<4x5xi1>, tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
    %1 = tessera.not %m : tensor<4x5xi1>
    return %0, %1 : tensor<4x5xf32>, tensor<4x5xi1>
  }
  func.func @pick(%table: tensor<9x3xf32> {tessera.name = "table"}, %rows: tensor<6xi64> {tessera.name = "rows"})
      -> (tensor<6x3xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
    %0 = tessera.gather %table, %rows {axis = 0} : (tensor<9x3xf32>, tensor<6xi64>) -> tensor<6x3xf32>
    return %0 : tensor<6x3xf32>
  }
  func.func @scale(%x: tensor<64x300xf32> {tessera.name = "x"}, %by: tensor<f32> {tessera.name = "by"}) -> (tensor<64x300xf32> {tessera.name = "y"})
      attributes {tessera.entry = "infer"} {
    %0 = tessera.mul %x, %by : (tensor<64x300xf32>, tensor<f32>) -> tensor<64x300xf32>
    return %0 : tensor<64x300xf32>
  }
}
