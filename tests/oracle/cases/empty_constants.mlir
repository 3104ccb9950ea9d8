// SPDX-License-Identifier: Apache-2.0
// An empty constant lies where its neighbour does: the loader took them to overlap.
func.func @empty_constants() -> (tensor<2xbf16> {tessera.name = "r0"}, tensor<0x8xbf16> {tessera.name = "r1"}, tensor<0xbf16> {tessera.name = "r2"}, tensor<8x0x7xf32> {tessera.name = "r3"}, tensor<17xf32> {tessera.name = "r4"}, tensor<3xf32> {tessera.name = "r5"}, tensor<7x3xbf16> {tessera.name = "r6"}) attributes {tessera.entry = "infer"} {
  %k0 = "tessera.constant"() {value = dense<[1.0, 2.0]> : tensor<2xbf16>} : () -> tensor<2xbf16>
  %k1 = "tessera.constant"() {value = dense<> : tensor<0x8xbf16>} : () -> tensor<0x8xbf16>
  %k2 = "tessera.constant"() {value = dense<> : tensor<0xbf16>} : () -> tensor<0xbf16>
  %k3 = "tessera.constant"() {value = dense<> : tensor<8x0x7xf32>} : () -> tensor<8x0x7xf32>
  %k4 = "tessera.constant"() {value = dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0]> : tensor<17xf32>} : () -> tensor<17xf32>
  %k5 = "tessera.constant"() {value = dense<[1.0, 2.0, 4.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %k6 = "tessera.constant"() {value = dense<[[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0], [3.0, 4.0, 5.0], [4.0, 5.0, 6.0], [5.0, 6.0, 7.0], [6.0, 7.0, 8.0]]> : tensor<7x3xbf16>} : () -> tensor<7x3xbf16>
  "func.return"(%k0, %k1, %k2, %k3, %k4, %k5, %k6) : (tensor<2xbf16>, tensor<0x8xbf16>, tensor<0xbf16>, tensor<8x0x7xf32>, tensor<17xf32>, tensor<3xf32>, tensor<7x3xbf16>) -> ()
}
