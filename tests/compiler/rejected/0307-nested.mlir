// SPDX-License-Identifier: Apache-2.0
// run: -tessera-flatten
func.func @f(%x: tensor<3xf32> {tessera.name = "x"}) -> (tensor<3xf32> {tessera.name = "r"}) attributes {tessera.entry = "infer"} {
%s0 = "tessera.scan"(%x) ({
^bb0(%a0: tensor<3xf32>):
%s1 = "tessera.scan"(%a0) ({
^bb0(%a1: tensor<3xf32>):
%s2 = "tessera.scan"(%a1) ({
^bb0(%a2: tensor<3xf32>):
%s3 = "tessera.scan"(%a2) ({
^bb0(%a3: tensor<3xf32>):
%s4 = "tessera.scan"(%a3) ({
^bb0(%a4: tensor<3xf32>):
%s5 = "tessera.scan"(%a4) ({
^bb0(%a5: tensor<3xf32>):
%s6 = "tessera.scan"(%a5) ({
^bb0(%a6: tensor<3xf32>):
%s7 = "tessera.scan"(%a6) ({
^bb0(%a7: tensor<3xf32>):
%s8 = "tessera.scan"(%a7) ({
^bb0(%a8: tensor<3xf32>):
%s9 = "tessera.scan"(%a8) ({
^bb0(%a9: tensor<3xf32>):
%s10 = "tessera.scan"(%a9) ({
^bb0(%a10: tensor<3xf32>):
%s11 = "tessera.scan"(%a10) ({
^bb0(%a11: tensor<3xf32>):
%n = tessera.neg %a11 : tensor<3xf32>
tessera.yield %n : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s11 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s10 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s9 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s8 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s7 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s6 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s5 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s4 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s3 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s2 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
tessera.yield %s1 : tensor<3xf32>
}) {carried = 1 : i64, length = 50 : i64} : (tensor<3xf32>) -> tensor<3xf32>
return %s0 : tensor<3xf32>
}
