// SPDX-License-Identifier: Apache-2.0
// Element types that there are not: the message names the type and those that there are.
//
// RUN: tessera-opt --split-input-file --verify-diagnostics -tessera-verify %s

// expected-error@+1 {{[TSR-0223] entry '@argument': argument 1 has the type tensor<4xi24>; expected a ranked tensor without an encoding, of at most 8 dims, whose elements are f64, f32, }}
func.func @argument(%x: tensor<4xf32> {tessera.name = "x"}, %y: tensor<4xi24> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  return
}

// -----

// expected-error@+1 {{[TSR-0223] entry '@encoding': argument 0 has the type tensor<4xf32, 1 : i64>; expected a ranked tensor without an encoding}}
func.func @encoding(%x: tensor<4xf32, 1 : i64> {tessera.name = "x"}) attributes {tessera.entry = "infer"} {
  return
}

// -----

// expected-error@+1 {{[TSR-0209] entry '@name': argument 0 needs one of the attributes tessera.data and tessera.name}}
func.func @name(%x: tensor<4xf32>) attributes {tessera.entry = "infer"} {
  return
}

// -----

// expected-error@+1 {{[TSR-0014] `!"quant"<"uniform<i8:f32, 0.1>">` is a type of no known dialect; the elements of a tensor are f64, f32, }}
func.func @type(%x: tensor<4x!quant.uniform<i8:f32, 0.1>>) {
  return
}

// -----

// expected-error@+1 {{[TSR-0014] #"foo"<"bar"> : 'none' attribute is of no known dialect}}
func.func @attribute() attributes {x = #foo.bar} {
  return
}

// -----

// expected-error@+1 {{[TSR-0014] 'float32' is not a type; the elements of a tensor are f64, f32, }}
func.func @word(%x: tensor<4xfloat32>) {
  return
}

// -----

func.func @generic() {
  // expected-error@+1 {{[TSR-0009] this operation is of no known dialect}}
  "foo.bar"() : () -> ()
  return
}

// -----

func.func @cast(%x: tensor<4xf32>) {
  // expected-error@+1 {{[TSR-0104] 'tessera.cast' op result #0 must be ranked tensor of f64, f32, bf16, f16, i64, i32, i16, i8, ui64, ui32, ui16, ui8, i1, f8E4M3FN, f8E5M2 or f8E8M0FNU values, but got 'tensor<4xi24>'}}
  %0 = tessera.cast %x : tensor<4xf32> -> tensor<4xi24>
  return
}
