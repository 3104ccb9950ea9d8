// SPDX-License-Identifier: Apache-2.0
// What a product on matrix units would store wider than need be, those that read it compute; where the numerics are portable, nothing changes.
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --numerics native --dump schedule | FileCheck %s
// RUN: tessera-aot build %s -o %t.tsb --target cpu:x86-64-v3 --dump schedule | FileCheck %s --check-prefix=PORTABLE

// The result is read twice, widened and scaled: neither is done behind the product. One walk over its rows takes both sums.
// CHECK: %[[Y:[0-9]+]] = tsched.call @[[K:k[0-9]+_matmul]](%arg0, %arg1) : (tensor<512x256xbf16>, tensor<256x384xbf16>) -> tensor<512x384xbf16>
// CHECK: tsched.call @k{{[0-9]+}}_cast_mul_sum_sum(%[[Y]], %arg2)
// PORTABLE: tsched.call @k{{[0-9]+}}_matmul_cast_cast({{.*}} -> tensor<512x384xf32>
func.func @wide(%x: tensor<512x256xbf16> {tessera.name = "x"}, %w: tensor<256x384xbf16> {tessera.name = "w"}, %s: tensor<384xf32> {tessera.name = "s"})
    -> (tensor<512xf32> {tessera.name = "a"}, tensor<384xf32> {tessera.name = "b"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %x, %w : (tensor<512x256xbf16>, tensor<256x384xbf16>) -> tensor<512x384xbf16>
  %z = tessera.cast %y : tensor<512x384xbf16> -> tensor<512x384xf32>
  %t = tessera.mul %z, %s : (tensor<512x384xf32>, tensor<384xf32>) -> tensor<512x384xf32>
  %a = tessera.sum %t {axes = [1]} : tensor<512x384xf32> -> tensor<512xf32>
  %b = tessera.sum %z {axes = [0]} : tensor<512x384xf32> -> tensor<384xf32>
  return %a, %b : tensor<512xf32>, tensor<384xf32>
}
