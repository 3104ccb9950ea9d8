// SPDX-License-Identifier: Apache-2.0
// The entries that `native` runs, built with --numerics native.
func.func @plain(%a: tensor<512x768xbf16> {tessera.name = "a"}, %b: tensor<768x1024xbf16> {tessera.name = "b"})
    -> (tensor<512x1024xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<512x768xbf16>, tensor<768x1024xbf16>) -> tensor<512x1024xbf16>
  return %y : tensor<512x1024xbf16>
}
func.func @fused(%a: tensor<1024x768xbf16> {tessera.name = "fa"}, %b: tensor<768x512xbf16> {tessera.name = "fb"},
                 %c: tensor<512xbf16> {tessera.name = "fc"})
    -> (tensor<1024x512xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b : (tensor<1024x768xbf16>, tensor<768x512xbf16>) -> tensor<1024x512xbf16>
  %s = tessera.add %m, %c : (tensor<1024x512xbf16>, tensor<512xbf16>) -> tensor<1024x512xbf16>
  %y = tessera.gelu %s {approximate = "tanh"} : tensor<1024x512xbf16>
  return %y : tensor<1024x512xbf16>
}
func.func @odd(%a: tensor<131x93xbf16> {tessera.name = "oa"}, %b: tensor<93x77xbf16> {tessera.name = "ob"})
    -> (tensor<131x77xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<131x93xbf16>, tensor<93x77xbf16>) -> tensor<131x77xbf16>
  return %y : tensor<131x77xbf16>
}
func.func @transposed(%a: tensor<264x136xf16> {tessera.name = "ta"}, %b: tensor<200x264xf16> {tessera.name = "tb"})
    -> (tensor<136x200xf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {transpose_a = true, transpose_b = true} : (tensor<264x136xf16>, tensor<200x264xf16>) -> tensor<136x200xf16>
  return %y : tensor<136x200xf16>
}
func.func @batched(%a: tensor<3x200x96xf16> {tessera.name = "ba"}, %b: tensor<3x96x136xf16> {tessera.name = "bb"})
    -> (tensor<3x200x136xf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<3x200x96xf16>, tensor<3x96x136xf16>) -> tensor<3x200x136xf16>
  return %y : tensor<3x200x136xf16>
}
func.func @residual(%a: tensor<1000x520xbf16> {tessera.name = "qa"}, %b: tensor<520x776xbf16> {tessera.name = "qb"},
                    %c: tensor<776xf32> {tessera.name = "qc"}, %r: tensor<1000x776xf32> {tessera.name = "qr"})
    -> (tensor<1000x776xf32> {tessera.name = "wide"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b : (tensor<1000x520xbf16>, tensor<520x776xbf16>) -> tensor<1000x776xbf16>
  %w = tessera.cast %m : tensor<1000x776xbf16> -> tensor<1000x776xf32>
  %s = tessera.add %w, %c : (tensor<1000x776xf32>, tensor<776xf32>) -> tensor<1000x776xf32>
  %y = tessera.add %r, %s : tensor<1000x776xf32>
  return %y : tensor<1000x776xf32>
}
func.func @slope(%a: tensor<3x200x96xf16> {tessera.name = "ha"}, %b: tensor<3x136x96xf16> {tessera.name = "hb"},
                 %s: tensor<3x200x136xf16> {tessera.name = "hs"})
    -> (tensor<3x200x136xf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b {transpose_b = true} : (tensor<3x200x96xf16>, tensor<3x136x96xf16>) -> tensor<3x200x136xf16>
  %y = tessera.mul %m, %s : tensor<3x200x136xf16>
  return %y : tensor<3x200x136xf16>
}
func.func @deep_wide(%a: tensor<4096x768xbf16> {tessera.name = "ia"}, %b: tensor<4096x2312xbf16> {tessera.name = "ib"})
    -> (tensor<768x2312xf32> {tessera.name = "wide"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b {transpose_a = true} : (tensor<4096x768xbf16>, tensor<4096x2312xbf16>) -> tensor<768x2312xbf16>
  %y = tessera.cast %m : tensor<768x2312xbf16> -> tensor<768x2312xf32>
  return %y : tensor<768x2312xf32>
}
func.func @sum_rows(%x: tensor<3x1500x520xbf16> {tessera.name = "ra"}) -> (tensor<520xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.sum %x {axes = [0, 1]} : tensor<3x1500x520xbf16> -> tensor<520xbf16>
  return %y : tensor<520xbf16>
}
func.func @sum_products(%a: tensor<5000x256xf16> {tessera.name = "pa"}, %b: tensor<5000x256xf16> {tessera.name = "pb"})
    -> (tensor<256xf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %x = tessera.cast %a : tensor<5000x256xf16> -> tensor<5000x256xf32>
  %z = tessera.cast %b : tensor<5000x256xf16> -> tensor<5000x256xf32>
  %p = tessera.mul %x, %z : tensor<5000x256xf32>
  %s = tessera.sum %p {axes = [0]} : tensor<5000x256xf32> -> tensor<256xf32>
  %y = tessera.cast %s : tensor<256xf32> -> tensor<256xf16>
  return %y : tensor<256xf16>
}
func.func @deep(%a: tensor<200x5000xbf16> {tessera.name = "ea"}, %b: tensor<5000x136xbf16> {tessera.name = "eb"},
                %c: tensor<136xbf16> {tessera.name = "ec"})
    -> (tensor<200x136xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b : (tensor<200x5000xbf16>, tensor<5000x136xbf16>) -> tensor<200x136xbf16>
  %y = tessera.add %m, %c : (tensor<200x136xbf16>, tensor<136xbf16>) -> tensor<200x136xbf16>
  return %y : tensor<200x136xbf16>
}
func.func @large(%a: tensor<4096x512xbf16> {tessera.name = "la"}, %b: tensor<512x3072xbf16> {tessera.name = "lb"},
                 %c: tensor<3072xbf16> {tessera.name = "lc"})
    -> (tensor<4096x3072xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b : (tensor<4096x512xbf16>, tensor<512x3072xbf16>) -> tensor<4096x3072xbf16>
  %s = tessera.add %m, %c : (tensor<4096x3072xbf16>, tensor<3072xbf16>) -> tensor<4096x3072xbf16>
  %y = tessera.gelu %s {approximate = "tanh"} : tensor<4096x3072xbf16>
  return %y : tensor<4096x3072xbf16>
}
func.func @soft(%x: tensor<200x1000xbf16> {tessera.name = "sx"}) -> (tensor<200x1000xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<200x1000xbf16>
  return %y : tensor<200x1000xbf16>
}
func.func @columns(%x: tensor<6x120x520xbf16> {tessera.name = "Pa"}) -> (tensor<6x120x520xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<6x120x520xbf16>
  return %y : tensor<6x120x520xbf16>
}
func.func @columns_odd(%x: tensor<3x77x131xf32> {tessera.name = "Qa"}) -> (tensor<3x77x131xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<3x77x131xf32>
  return %y : tensor<3x77x131xf32>
}
func.func @columns_first(%x: tensor<700x264xf16> {tessera.name = "Ra"}) -> (tensor<700x264xf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 0 : i64} : tensor<700x264xf16>
  return %y : tensor<700x264xf16>
}
func.func @columns_long(%x: tensor<2x2000x96xf32> {tessera.name = "Sa"}) -> (tensor<2x2000x96xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<2x2000x96xf32>
  return %y : tensor<2x2000x96xf32>
}
func.func @columns_grad(%y: tensor<4x65x776xbf16> {tessera.name = "Ta"}, %g: tensor<4x65x776xbf16> {tessera.name = "Tb"}) -> (tensor<4x65x776xbf16> {tessera.name = "dx"})
    attributes {tessera.entry = "infer"} {
  %v1 = tessera.cast %y : tensor<4x65x776xbf16> -> tensor<4x65x776xf32>
  %v2 = tessera.cast %g : tensor<4x65x776xbf16> -> tensor<4x65x776xf32>
  %v3 = tessera.softmax_safe %v1 {axis = 1 : i64} : tensor<4x65x776xf32>
  %v4 = tessera.mul %v3, %v2 : tensor<4x65x776xf32>
  %v5 = tessera.sum %v4 {axes = [1]} : tensor<4x65x776xf32> -> tensor<4x776xf32>
  %v6 = tessera.reshape %v5 : tensor<4x776xf32> -> tensor<4x1x776xf32>
  %v7 = tessera.sub %v2, %v6 : (tensor<4x65x776xf32>, tensor<4x1x776xf32>) -> tensor<4x65x776xf32>
  %v8 = tessera.mul %v3, %v7 : tensor<4x65x776xf32>
  %v9 = tessera.cast %v8 : tensor<4x65x776xf32> -> tensor<4x65x776xbf16>
  return %v9 : tensor<4x65x776xbf16>
}
func.func @norm(%x: tensor<300x1544xbf16> {tessera.name = "nx"}, %s: tensor<1544xbf16> {tessera.name = "ns"},
                %b: tensor<1544xbf16> {tessera.name = "nb"})
    -> (tensor<300x1544xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.layernorm_safe %x, %s, %b {axes = [1], eps = 1.0e-5}
      : tensor<300x1544xbf16>, tensor<1544xbf16>, tensor<1544xbf16> -> tensor<300x1544xbf16>
  return %y : tensor<300x1544xbf16>
}
func.func @attend(%q: tensor<2x6x200x64xbf16> {tessera.name = "atq"}, %k: tensor<2x2x333x64xbf16> {tessera.name = "atk"}, %v: tensor<2x2x333x64xbf16> {tessera.name = "atv"})
    -> (tensor<2x6x200x64xbf16> {tessera.name = "y"}, tensor<2x6x200xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %y, %l = tessera.attention %q, %k, %v {causal} : (tensor<2x6x200x64xbf16>, tensor<2x2x333x64xbf16>, tensor<2x2x333x64xbf16>) -> (tensor<2x6x200x64xbf16>, tensor<2x6x200xf32>)
  return %y, %l : tensor<2x6x200x64xbf16>, tensor<2x6x200xf32>
}
func.func @attend_wide(%q: tensor<1x3x300x128xbf16> {tessera.name = "awq"}, %k: tensor<1x3x300x128xbf16> {tessera.name = "awk"}, %v: tensor<1x3x300x128xbf16> {tessera.name = "awv"})
    -> (tensor<1x3x300x128xbf16> {tessera.name = "y"}, tensor<1x3x300xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %y, %l = tessera.attention %q, %k, %v {causal} : tensor<1x3x300x128xbf16> -> (tensor<1x3x300x128xbf16>, tensor<1x3x300xf32>)
  return %y, %l : tensor<1x3x300x128xbf16>, tensor<1x3x300xf32>
}
func.func @attend_blind(%q: tensor<1x2x300x128xf16> {tessera.name = "abq"}, %k: tensor<1x1x100x128xf16> {tessera.name = "abk"}, %v: tensor<1x1x100x128xf16> {tessera.name = "abv"})
    -> (tensor<1x2x300x128xf16> {tessera.name = "y"}, tensor<1x2x300xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %y, %l = tessera.attention %q, %k, %v {causal} : (tensor<1x2x300x128xf16>, tensor<1x1x100x128xf16>, tensor<1x1x100x128xf16>) -> (tensor<1x2x300x128xf16>, tensor<1x2x300xf32>)
  return %y, %l : tensor<1x2x300x128xf16>, tensor<1x2x300xf32>
}
func.func @attend_all(%q: tensor<2x3x130x64xbf16> {tessera.name = "aaq"}, %k: tensor<2x3x450x64xbf16> {tessera.name = "aak"}, %v: tensor<2x3x450x64xbf16> {tessera.name = "aav"})
    -> (tensor<2x3x130x64xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.attention %q, %k, %v : (tensor<2x3x130x64xbf16>, tensor<2x3x450x64xbf16>, tensor<2x3x450x64xbf16>) -> tensor<2x3x130x64xbf16>
  return %y : tensor<2x3x130x64xbf16>
}
func.func @soft_long(%x: tensor<50x2304xbf16> {tessera.name = "lx"}) -> (tensor<50x2304xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<50x2304xbf16>
  return %y : tensor<50x2304xbf16>
}
func.func @norm_long(%x: tensor<70x4096xf16> {tessera.name = "mx"}, %s: tensor<4096xf16> {tessera.name = "ms"},
                     %b: tensor<4096xf16> {tessera.name = "mb"})
    -> (tensor<70x4096xf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.layernorm_safe %x, %s, %b {axes = [1], eps = 1.0e-5}
      : tensor<70x4096xf16>, tensor<4096xf16>, tensor<4096xf16> -> tensor<70x4096xf16>
  return %y : tensor<70x4096xf16>
}
func.func @grad(%q: tensor<1x6x640x64xbf16> {tessera.name = "gaq"}, %k: tensor<1x2x640x64xbf16> {tessera.name = "gak"}, %v: tensor<1x2x640x64xbf16> {tessera.name = "gav"},
                 %o: tensor<1x6x640x64xbf16> {tessera.name = "gao"}, %l: tensor<1x6x640xf32> {tessera.name = "gal"}, %g: tensor<1x6x640x64xbf16> {tessera.name = "gag"})
    -> (tensor<1x6x640x64xbf16> {tessera.name = "dq"}, tensor<1x2x640x64xbf16> {tessera.name = "dk"}, tensor<1x2x640x64xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g {causal} : (tensor<1x6x640x64xbf16>, tensor<1x2x640x64xbf16>, tensor<1x2x640x64xbf16>, tensor<1x6x640x64xbf16>, tensor<1x6x640xf32>, tensor<1x6x640x64xbf16>) -> (tensor<1x6x640x64xbf16>, tensor<1x2x640x64xbf16>, tensor<1x2x640x64xbf16>)
  return %dq, %dk, %dv : tensor<1x6x640x64xbf16>, tensor<1x2x640x64xbf16>, tensor<1x2x640x64xbf16>
}
func.func @grad_wide(%q: tensor<1x4x384x128xbf16> {tessera.name = "gbq"}, %k: tensor<1x2x384x128xbf16> {tessera.name = "gbk"}, %v: tensor<1x2x384x128xbf16> {tessera.name = "gbv"},
                 %o: tensor<1x4x384x128xbf16> {tessera.name = "gbo"}, %l: tensor<1x4x384xf32> {tessera.name = "gbl"}, %g: tensor<1x4x384x128xbf16> {tessera.name = "gbg"})
    -> (tensor<1x4x384x128xbf16> {tessera.name = "dq"}, tensor<1x2x384x128xbf16> {tessera.name = "dk"}, tensor<1x2x384x128xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g {causal} : (tensor<1x4x384x128xbf16>, tensor<1x2x384x128xbf16>, tensor<1x2x384x128xbf16>, tensor<1x4x384x128xbf16>, tensor<1x4x384xf32>, tensor<1x4x384x128xbf16>) -> (tensor<1x4x384x128xbf16>, tensor<1x2x384x128xbf16>, tensor<1x2x384x128xbf16>)
  return %dq, %dk, %dv : tensor<1x4x384x128xbf16>, tensor<1x2x384x128xbf16>, tensor<1x2x384x128xbf16>
}
func.func @grad_all(%q: tensor<1x3x512x64xf16> {tessera.name = "gcq"}, %k: tensor<1x3x512x64xf16> {tessera.name = "gck"}, %v: tensor<1x3x512x64xf16> {tessera.name = "gcv"},
                 %o: tensor<1x3x512x64xf16> {tessera.name = "gco"}, %l: tensor<1x3x512xf32> {tessera.name = "gcl"}, %g: tensor<1x3x512x64xf16> {tessera.name = "gcg"})
    -> (tensor<1x3x512x64xf16> {tessera.name = "dq"}, tensor<1x3x512x64xf16> {tessera.name = "dk"}, tensor<1x3x512x64xf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g : (tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>, tensor<1x3x512xf32>, tensor<1x3x512x64xf16>) -> (tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>)
  return %dq, %dk, %dv : tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>
}
func.func @grad_all_wide(%q: tensor<1x4x640x128xbf16> {tessera.name = "gdq"}, %k: tensor<1x1x640x128xbf16> {tessera.name = "gdk"}, %v: tensor<1x1x640x128xbf16> {tessera.name = "gdv"},
                 %o: tensor<1x4x640x128xbf16> {tessera.name = "gdo"}, %l: tensor<1x4x640xf32> {tessera.name = "gdl"}, %g: tensor<1x4x640x128xbf16> {tessera.name = "gdg"})
    -> (tensor<1x4x640x128xbf16> {tessera.name = "dq"}, tensor<1x1x640x128xbf16> {tessera.name = "dk"}, tensor<1x1x640x128xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g : (tensor<1x4x640x128xbf16>, tensor<1x1x640x128xbf16>, tensor<1x1x640x128xbf16>, tensor<1x4x640x128xbf16>, tensor<1x4x640xf32>, tensor<1x4x640x128xbf16>) -> (tensor<1x4x640x128xbf16>, tensor<1x1x640x128xbf16>, tensor<1x1x640x128xbf16>)
  return %dq, %dk, %dv : tensor<1x4x640x128xbf16>, tensor<1x1x640x128xbf16>, tensor<1x1x640x128xbf16>
}
func.func @grad_one(%q: tensor<1x5x128x64xf16> {tessera.name = "geq"}, %k: tensor<1x5x128x64xf16> {tessera.name = "gek"}, %v: tensor<1x5x128x64xf16> {tessera.name = "gev"},
                 %o: tensor<1x5x128x64xf16> {tessera.name = "geo"}, %l: tensor<1x5x128xf32> {tessera.name = "gel"}, %g: tensor<1x5x128x64xf16> {tessera.name = "geg"})
    -> (tensor<1x5x128x64xf16> {tessera.name = "dq"}, tensor<1x5x128x64xf16> {tessera.name = "dk"}, tensor<1x5x128x64xf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g {causal} : (tensor<1x5x128x64xf16>, tensor<1x5x128x64xf16>, tensor<1x5x128x64xf16>, tensor<1x5x128x64xf16>, tensor<1x5x128xf32>, tensor<1x5x128x64xf16>) -> (tensor<1x5x128x64xf16>, tensor<1x5x128x64xf16>, tensor<1x5x128x64xf16>)
  return %dq, %dk, %dv : tensor<1x5x128x64xf16>, tensor<1x5x128x64xf16>, tensor<1x5x128x64xf16>
}
func.func @grad_odd(%q: tensor<1x2x200x64xbf16> {tessera.name = "gfq"}, %k: tensor<1x1x200x64xbf16> {tessera.name = "gfk"}, %v: tensor<1x1x200x64xbf16> {tessera.name = "gfv"},
                 %o: tensor<1x2x200x64xbf16> {tessera.name = "gfo"}, %l: tensor<1x2x200xf32> {tessera.name = "gfl"}, %g: tensor<1x2x200x64xbf16> {tessera.name = "gfg"})
    -> (tensor<1x2x200x64xbf16> {tessera.name = "dq"}, tensor<1x1x200x64xbf16> {tessera.name = "dk"}, tensor<1x1x200x64xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g {causal} : (tensor<1x2x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x2x200x64xbf16>, tensor<1x2x200xf32>, tensor<1x2x200x64xbf16>) -> (tensor<1x2x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x1x200x64xbf16>)
  return %dq, %dk, %dv : tensor<1x2x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x1x200x64xbf16>
}
func.func @norm_wide(%x: tensor<37x5000xbf16> {tessera.name = "wx"}, %s: tensor<5000xbf16> {tessera.name = "ws"},
                     %b: tensor<5000xbf16> {tessera.name = "wb"})
    -> (tensor<37x5000xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.layernorm_safe %x, %s, %b {axes = [1], eps = 1.0e-5}
      : tensor<37x5000xbf16>, tensor<5000xbf16>, tensor<5000xbf16> -> tensor<37x5000xbf16>
  return %y : tensor<37x5000xbf16>
}
func.func @soft_short(%x: tensor<1000x264xbf16> {tessera.name = "tx"}) -> (tensor<1000x264xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.softmax_safe %x {axis = 1 : i64} : tensor<1000x264xbf16>
  return %y : tensor<1000x264xbf16>
}
func.func @cross(%x: tensor<50x10008xbf16> {tessera.name = "xx"}, %n: tensor<50xi64> {tessera.name = "xn"}, %d: tensor<50xf32> {tessera.name = "xd"})
    -> (tensor<50xf32> {tessera.name = "loss"}, tensor<50x10008xbf16> {tessera.name = "dx"}) attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<50x10008xbf16> -> tensor<50x10008xf32>
  %y = tessera.cross_entropy %f, %n : (tensor<50x10008xf32>, tensor<50xi64>) -> tensor<50xf32>
  %g = tessera.cross_entropy_grad %f, %n, %d : (tensor<50x10008xf32>, tensor<50xi64>, tensor<50xf32>) -> tensor<50x10008xf32>
  %h = tessera.cast %g : tensor<50x10008xf32> -> tensor<50x10008xbf16>
  return %y, %h : tensor<50xf32>, tensor<50x10008xbf16>
}
func.func @cross_f32(%x: tensor<33x4104xf32> {tessera.name = "zx"}, %n: tensor<33xi64> {tessera.name = "zn"})
    -> (tensor<33xf32> {tessera.name = "loss"}) attributes {tessera.entry = "infer"} {
  %y = tessera.cross_entropy %x, %n : (tensor<33x4104xf32>, tensor<33xi64>) -> tensor<33xf32>
  return %y : tensor<33xf32>
}

// Heads that lie side by side.
func.func @sides(%x: tensor<2x200x512xbf16> {tessera.name = "sax"})
    -> (tensor<2x200x256xbf16> {tessera.name = "y"}, tensor<2x4x200xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %qf = tessera.slice %x {start = [0, 0, 0], size = [2, 200, 256]} : tensor<2x200x512xbf16> -> tensor<2x200x256xbf16>
  %qs = tessera.reshape %qf : tensor<2x200x256xbf16> -> tensor<2x200x4x64xbf16>
  %q = tessera.transpose %qs {permutation = [0, 2, 1, 3]} : tensor<2x200x4x64xbf16> -> tensor<2x4x200x64xbf16>
  %kf = tessera.slice %x {start = [0, 0, 256], size = [2, 200, 128]} : tensor<2x200x512xbf16> -> tensor<2x200x128xbf16>
  %ks = tessera.reshape %kf : tensor<2x200x128xbf16> -> tensor<2x200x2x64xbf16>
  %k = tessera.transpose %ks {permutation = [0, 2, 1, 3]} : tensor<2x200x2x64xbf16> -> tensor<2x2x200x64xbf16>
  %vf = tessera.slice %x {start = [0, 0, 384], size = [2, 200, 128]} : tensor<2x200x512xbf16> -> tensor<2x200x128xbf16>
  %vs = tessera.reshape %vf : tensor<2x200x128xbf16> -> tensor<2x200x2x64xbf16>
  %v = tessera.transpose %vs {permutation = [0, 2, 1, 3]} : tensor<2x200x2x64xbf16> -> tensor<2x2x200x64xbf16>
  %o, %l = tessera.attention %q, %k, %v {causal} : (tensor<2x4x200x64xbf16>, tensor<2x2x200x64xbf16>, tensor<2x2x200x64xbf16>) -> (tensor<2x4x200x64xbf16>, tensor<2x4x200xf32>)
  %os = tessera.transpose %o {permutation = [0, 2, 1, 3]} : tensor<2x4x200x64xbf16> -> tensor<2x200x4x64xbf16>
  %y = tessera.reshape %os : tensor<2x200x4x64xbf16> -> tensor<2x200x256xbf16>
  return %y, %l : tensor<2x200x256xbf16>, tensor<2x4x200xf32>
}
func.func @sides_odd(%x: tensor<1x130x776xf16> {tessera.name = "sbx"})
    -> (tensor<1x130x256xf16> {tessera.name = "y"}, tensor<1x2x130xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %qf = tessera.slice %x {start = [0, 0, 8], size = [1, 130, 256]} : tensor<1x130x776xf16> -> tensor<1x130x256xf16>
  %qs = tessera.reshape %qf : tensor<1x130x256xf16> -> tensor<1x130x2x128xf16>
  %q = tessera.transpose %qs {permutation = [0, 2, 1, 3]} : tensor<1x130x2x128xf16> -> tensor<1x2x130x128xf16>
  %kf = tessera.slice %x {start = [0, 0, 264], size = [1, 130, 256]} : tensor<1x130x776xf16> -> tensor<1x130x256xf16>
  %ks = tessera.reshape %kf : tensor<1x130x256xf16> -> tensor<1x130x2x128xf16>
  %k = tessera.transpose %ks {permutation = [0, 2, 1, 3]} : tensor<1x130x2x128xf16> -> tensor<1x2x130x128xf16>
  %vf = tessera.slice %x {start = [0, 0, 520], size = [1, 130, 256]} : tensor<1x130x776xf16> -> tensor<1x130x256xf16>
  %vs = tessera.reshape %vf : tensor<1x130x256xf16> -> tensor<1x130x2x128xf16>
  %v = tessera.transpose %vs {permutation = [0, 2, 1, 3]} : tensor<1x130x2x128xf16> -> tensor<1x2x130x128xf16>
  %o, %l = tessera.attention %q, %k, %v : tensor<1x2x130x128xf16> -> (tensor<1x2x130x128xf16>, tensor<1x2x130xf32>)
  %os = tessera.transpose %o {permutation = [0, 2, 1, 3]} : tensor<1x2x130x128xf16> -> tensor<1x130x2x128xf16>
  %y = tessera.reshape %os : tensor<1x130x2x128xf16> -> tensor<1x130x256xf16>
  return %y, %l : tensor<1x130x256xf16>, tensor<1x2x130xf32>
}
func.func @sides_grad(%x: tensor<2x256x320xbf16> {tessera.name = "scx"}, %g: tensor<2x256x192xbf16> {tessera.name = "scg"})
    -> (tensor<2x256x320xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %qf = tessera.slice %x {start = [0, 0, 0], size = [2, 256, 192]} : tensor<2x256x320xbf16> -> tensor<2x256x192xbf16>
  %qs = tessera.reshape %qf : tensor<2x256x192xbf16> -> tensor<2x256x3x64xbf16>
  %q = tessera.transpose %qs {permutation = [0, 2, 1, 3]} : tensor<2x256x3x64xbf16> -> tensor<2x3x256x64xbf16>
  %kf = tessera.slice %x {start = [0, 0, 192], size = [2, 256, 64]} : tensor<2x256x320xbf16> -> tensor<2x256x64xbf16>
  %ks = tessera.reshape %kf : tensor<2x256x64xbf16> -> tensor<2x256x1x64xbf16>
  %k = tessera.transpose %ks {permutation = [0, 2, 1, 3]} : tensor<2x256x1x64xbf16> -> tensor<2x1x256x64xbf16>
  %vf = tessera.slice %x {start = [0, 0, 256], size = [2, 256, 64]} : tensor<2x256x320xbf16> -> tensor<2x256x64xbf16>
  %vs = tessera.reshape %vf : tensor<2x256x64xbf16> -> tensor<2x256x1x64xbf16>
  %v = tessera.transpose %vs {permutation = [0, 2, 1, 3]} : tensor<2x256x1x64xbf16> -> tensor<2x1x256x64xbf16>
  %o, %l = tessera.attention %q, %k, %v {causal} : (tensor<2x3x256x64xbf16>, tensor<2x1x256x64xbf16>, tensor<2x1x256x64xbf16>) -> (tensor<2x3x256x64xbf16>, tensor<2x3x256xf32>)
  %gg = tessera.add %g, %g : tensor<2x256x192xbf16>
  %gs = tessera.reshape %gg : tensor<2x256x192xbf16> -> tensor<2x256x3x64xbf16>
  %gt = tessera.transpose %gs {permutation = [0, 2, 1, 3]} : tensor<2x256x3x64xbf16> -> tensor<2x3x256x64xbf16>
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %gt {causal} : (tensor<2x3x256x64xbf16>, tensor<2x1x256x64xbf16>, tensor<2x1x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256xf32>, tensor<2x3x256x64xbf16>) -> (tensor<2x3x256x64xbf16>, tensor<2x1x256x64xbf16>, tensor<2x1x256x64xbf16>)
  %dqs = tessera.transpose %dq {permutation = [0, 2, 1, 3]} : tensor<2x3x256x64xbf16> -> tensor<2x256x3x64xbf16>
  %dqf = tessera.reshape %dqs : tensor<2x256x3x64xbf16> -> tensor<2x256x192xbf16>
  %dks = tessera.transpose %dk {permutation = [0, 2, 1, 3]} : tensor<2x1x256x64xbf16> -> tensor<2x256x1x64xbf16>
  %dkf = tessera.reshape %dks : tensor<2x256x1x64xbf16> -> tensor<2x256x64xbf16>
  %dvs = tessera.transpose %dv {permutation = [0, 2, 1, 3]} : tensor<2x1x256x64xbf16> -> tensor<2x256x1x64xbf16>
  %dvf = tessera.reshape %dvs : tensor<2x256x1x64xbf16> -> tensor<2x256x64xbf16>
  %y = tessera.concat %dqf, %dkf, %dvf {axis = 2 : i64} : (tensor<2x256x192xbf16>, tensor<2x256x64xbf16>, tensor<2x256x64xbf16>) -> tensor<2x256x320xbf16>
  return %y : tensor<2x256x320xbf16>
}
func.func @sides_transposed(%x: tensor<3x256x320xbf16> {tessera.name = "sex"}, %g: tensor<3x256x192xbf16> {tessera.name = "seg"})
    -> (tensor<3x256x320xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %qf = tessera.slice %x {start = [0, 0, 0], size = [3, 256, 192]} : tensor<3x256x320xbf16> -> tensor<3x256x192xbf16>
  %qs = tessera.reshape %qf : tensor<3x256x192xbf16> -> tensor<3x256x3x64xbf16>
  %q = tessera.transpose %qs {permutation = [0, 2, 1, 3]} : tensor<3x256x3x64xbf16> -> tensor<3x3x256x64xbf16>
  %kf = tessera.slice %x {start = [0, 0, 192], size = [3, 256, 64]} : tensor<3x256x320xbf16> -> tensor<3x256x64xbf16>
  %ks = tessera.reshape %kf : tensor<3x256x64xbf16> -> tensor<3x256x1x64xbf16>
  %k = tessera.transpose %ks {permutation = [0, 2, 1, 3]} : tensor<3x256x1x64xbf16> -> tensor<3x1x256x64xbf16>
  %vf = tessera.slice %x {start = [0, 0, 256], size = [3, 256, 64]} : tensor<3x256x320xbf16> -> tensor<3x256x64xbf16>
  %vs = tessera.reshape %vf : tensor<3x256x64xbf16> -> tensor<3x256x1x64xbf16>
  %v = tessera.transpose %vs {permutation = [0, 2, 1, 3]} : tensor<3x256x1x64xbf16> -> tensor<3x1x256x64xbf16>
  %o, %l = tessera.attention %q, %k, %v {causal} : (tensor<3x3x256x64xbf16>, tensor<3x1x256x64xbf16>, tensor<3x1x256x64xbf16>) -> (tensor<3x3x256x64xbf16>, tensor<3x3x256xf32>)
  %gg = tessera.add %g, %g : tensor<3x256x192xbf16>
  %gs = tessera.reshape %gg : tensor<3x256x192xbf16> -> tensor<3x256x3x64xbf16>
  %gt = tessera.transpose %gs {permutation = [0, 2, 1, 3]} : tensor<3x256x3x64xbf16> -> tensor<3x3x256x64xbf16>
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %gt {causal} : (tensor<3x3x256x64xbf16>, tensor<3x1x256x64xbf16>, tensor<3x1x256x64xbf16>, tensor<3x3x256x64xbf16>, tensor<3x3x256xf32>, tensor<3x3x256x64xbf16>) -> (tensor<3x3x256x64xbf16>, tensor<3x1x256x64xbf16>, tensor<3x1x256x64xbf16>)
  %dqs = tessera.transpose %dq {permutation = [0, 2, 1, 3]} : tensor<3x3x256x64xbf16> -> tensor<3x256x3x64xbf16>
  %dqf = tessera.reshape %dqs : tensor<3x256x3x64xbf16> -> tensor<3x256x192xbf16>
  %dks = tessera.transpose %dk {permutation = [0, 2, 1, 3]} : tensor<3x1x256x64xbf16> -> tensor<3x256x1x64xbf16>
  %dkf = tessera.reshape %dks : tensor<3x256x1x64xbf16> -> tensor<3x256x64xbf16>
  %dvs = tessera.transpose %dv {permutation = [0, 2, 1, 3]} : tensor<3x1x256x64xbf16> -> tensor<3x256x1x64xbf16>
  %dvf = tessera.reshape %dvs : tensor<3x256x1x64xbf16> -> tensor<3x256x64xbf16>
  %dq2 = tessera.add %dqf, %dqf : tensor<3x256x192xbf16>
  %dk2 = tessera.add %dkf, %dkf : tensor<3x256x64xbf16>
  %dv2 = tessera.add %dvf, %dvf : tensor<3x256x64xbf16>
  %y = tessera.concat %dq2, %dk2, %dv2 {axis = 2 : i64} : (tensor<3x256x192xbf16>, tensor<3x256x64xbf16>, tensor<3x256x64xbf16>) -> tensor<3x256x320xbf16>
  return %y : tensor<3x256x320xbf16>
}
func.func @sides_grad_wide(%x: tensor<1x384x784xf16> {tessera.name = "sdx"}, %g: tensor<1x384x256xf16> {tessera.name = "sdg"})
    -> (tensor<1x384x768xf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %qf = tessera.slice %x {start = [0, 0, 16], size = [1, 384, 256]} : tensor<1x384x784xf16> -> tensor<1x384x256xf16>
  %qs = tessera.reshape %qf : tensor<1x384x256xf16> -> tensor<1x384x2x128xf16>
  %q = tessera.transpose %qs {permutation = [0, 2, 1, 3]} : tensor<1x384x2x128xf16> -> tensor<1x2x384x128xf16>
  %kf = tessera.slice %x {start = [0, 0, 272], size = [1, 384, 256]} : tensor<1x384x784xf16> -> tensor<1x384x256xf16>
  %ks = tessera.reshape %kf : tensor<1x384x256xf16> -> tensor<1x384x2x128xf16>
  %k = tessera.transpose %ks {permutation = [0, 2, 1, 3]} : tensor<1x384x2x128xf16> -> tensor<1x2x384x128xf16>
  %vf = tessera.slice %x {start = [0, 0, 528], size = [1, 384, 256]} : tensor<1x384x784xf16> -> tensor<1x384x256xf16>
  %vs = tessera.reshape %vf : tensor<1x384x256xf16> -> tensor<1x384x2x128xf16>
  %v = tessera.transpose %vs {permutation = [0, 2, 1, 3]} : tensor<1x384x2x128xf16> -> tensor<1x2x384x128xf16>
  %o, %l = tessera.attention %q, %k, %v {causal} : tensor<1x2x384x128xf16> -> (tensor<1x2x384x128xf16>, tensor<1x2x384xf32>)
  %gg = tessera.add %g, %g : tensor<1x384x256xf16>
  %gs = tessera.reshape %gg : tensor<1x384x256xf16> -> tensor<1x384x2x128xf16>
  %gt = tessera.transpose %gs {permutation = [0, 2, 1, 3]} : tensor<1x384x2x128xf16> -> tensor<1x2x384x128xf16>
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %gt {causal} : (tensor<1x2x384x128xf16>, tensor<1x2x384x128xf16>, tensor<1x2x384x128xf16>, tensor<1x2x384x128xf16>, tensor<1x2x384xf32>, tensor<1x2x384x128xf16>) -> (tensor<1x2x384x128xf16>, tensor<1x2x384x128xf16>, tensor<1x2x384x128xf16>)
  %dqs = tessera.transpose %dq {permutation = [0, 2, 1, 3]} : tensor<1x2x384x128xf16> -> tensor<1x384x2x128xf16>
  %dqf = tessera.reshape %dqs : tensor<1x384x2x128xf16> -> tensor<1x384x256xf16>
  %dks = tessera.transpose %dk {permutation = [0, 2, 1, 3]} : tensor<1x2x384x128xf16> -> tensor<1x384x2x128xf16>
  %dkf = tessera.reshape %dks : tensor<1x384x2x128xf16> -> tensor<1x384x256xf16>
  %dvs = tessera.transpose %dv {permutation = [0, 2, 1, 3]} : tensor<1x2x384x128xf16> -> tensor<1x384x2x128xf16>
  %dvf = tessera.reshape %dvs : tensor<1x384x2x128xf16> -> tensor<1x384x256xf16>
  %y = tessera.concat %dqf, %dkf, %dvf {axis = 2 : i64} : tensor<1x384x256xf16> -> tensor<1x384x768xf16>
  return %y : tensor<1x384x768xf16>
}
func.func @norm_grad(%x: tensor<603x776xbf16> {tessera.name = "vx"}, %s: tensor<776xf32> {tessera.name = "vs"}, %g: tensor<603x776xbf16> {tessera.name = "vg"}) -> (tensor<603x776xbf16> {tessera.name = "dx"}, tensor<776xf32> {tessera.name = "ds"}, tensor<776xf32> {tessera.name = "db"}) attributes {tessera.entry = "infer"} {
  %v1 = tessera.cast %x : tensor<603x776xbf16> -> tensor<603x776xf32>
  %v2 = tessera.cast %g : tensor<603x776xbf16> -> tensor<603x776xf32>
  %v3 = tessera.mean %v1 {axes = [1]} : tensor<603x776xf32> -> tensor<603xf32>
  %v4 = tessera.reshape %v3 : tensor<603xf32> -> tensor<603x1xf32>
  %v5 = tessera.sub %v1, %v4 : (tensor<603x776xf32>, tensor<603x1xf32>) -> tensor<603x776xf32>
  %v6 = tessera.mul %v5, %v5 : tensor<603x776xf32>
  %v7 = tessera.mean %v6 {axes = [1]} : tensor<603x776xf32> -> tensor<603xf32>
  %v8 = tessera.constant dense<1.0e-5> : tensor<f32>
  %v9 = tessera.add %v7, %v8 : (tensor<603xf32>, tensor<f32>) -> tensor<603xf32>
  %v10 = tessera.rsqrt %v9 : tensor<603xf32>
  %v11 = tessera.reshape %v10 : tensor<603xf32> -> tensor<603x1xf32>
  %v12 = tessera.mul %v5, %v11 : (tensor<603x776xf32>, tensor<603x1xf32>) -> tensor<603x776xf32>
  %v13 = tessera.mul %v2, %s : (tensor<603x776xf32>, tensor<776xf32>) -> tensor<603x776xf32>
  %v14 = tessera.mul %v13, %v12 : tensor<603x776xf32>
  %v15 = tessera.mean %v14 {axes = [1]} : tensor<603x776xf32> -> tensor<603xf32>
  %v16 = tessera.reshape %v15 : tensor<603xf32> -> tensor<603x1xf32>
  %v17 = tessera.mul %v12, %v16 : (tensor<603x776xf32>, tensor<603x1xf32>) -> tensor<603x776xf32>
  %v18 = tessera.mean %v13 {axes = [1]} : tensor<603x776xf32> -> tensor<603xf32>
  %v19 = tessera.reshape %v18 : tensor<603xf32> -> tensor<603x1xf32>
  %v20 = tessera.sub %v13, %v19 : (tensor<603x776xf32>, tensor<603x1xf32>) -> tensor<603x776xf32>
  %v21 = tessera.sub %v20, %v17 : tensor<603x776xf32>
  %v22 = tessera.mul %v21, %v11 : (tensor<603x776xf32>, tensor<603x1xf32>) -> tensor<603x776xf32>
  %v23 = tessera.cast %v22 : tensor<603x776xf32> -> tensor<603x776xbf16>
  %v24 = tessera.mul %v2, %v12 : tensor<603x776xf32>
  %v25 = tessera.sum %v24 {axes = [0]} : tensor<603x776xf32> -> tensor<776xf32>
  %v26 = tessera.sum %v2 {axes = [0]} : tensor<603x776xf32> -> tensor<776xf32>
  return %v23, %v25, %v26 : tensor<603x776xbf16>, tensor<776xf32>, tensor<776xf32>
}
func.func @norm_grad_f32(%x: tensor<4x100x1000xf32> {tessera.name = "ux"}, %s: tensor<1000xf32> {tessera.name = "us"}, %g: tensor<4x100x1000xf32> {tessera.name = "ug"}) -> (tensor<4x100x1000xf32> {tessera.name = "dx"}, tensor<4x1000xf32> {tessera.name = "ds"}) attributes {tessera.entry = "infer"} {
  %v1 = tessera.mul %x, %x : tensor<4x100x1000xf32>
  %v2 = tessera.mean %v1 {axes = [2]} : tensor<4x100x1000xf32> -> tensor<4x100xf32>
  %v3 = tessera.constant dense<1.0e-5> : tensor<f32>
  %v4 = tessera.add %v2, %v3 : (tensor<4x100xf32>, tensor<f32>) -> tensor<4x100xf32>
  %v5 = tessera.rsqrt %v4 : tensor<4x100xf32>
  %v6 = tessera.reshape %v5 : tensor<4x100xf32> -> tensor<4x100x1xf32>
  %v7 = tessera.mul %x, %v6 : (tensor<4x100x1000xf32>, tensor<4x100x1xf32>) -> tensor<4x100x1000xf32>
  %v8 = tessera.mul %g, %s : (tensor<4x100x1000xf32>, tensor<1000xf32>) -> tensor<4x100x1000xf32>
  %v9 = tessera.mul %v8, %v7 : tensor<4x100x1000xf32>
  %v10 = tessera.mean %v9 {axes = [2]} : tensor<4x100x1000xf32> -> tensor<4x100xf32>
  %v11 = tessera.reshape %v10 : tensor<4x100xf32> -> tensor<4x100x1xf32>
  %v12 = tessera.mul %v7, %v11 : (tensor<4x100x1000xf32>, tensor<4x100x1xf32>) -> tensor<4x100x1000xf32>
  %v13 = tessera.sub %v8, %v12 : tensor<4x100x1000xf32>
  %v14 = tessera.mul %v13, %v6 : (tensor<4x100x1000xf32>, tensor<4x100x1xf32>) -> tensor<4x100x1000xf32>
  %v15 = tessera.mul %g, %v7 : tensor<4x100x1000xf32>
  %v16 = tessera.sum %v15 {axes = [1]} : tensor<4x100x1000xf32> -> tensor<4x1000xf32>
  return %v14, %v16 : tensor<4x100x1000xf32>, tensor<4x1000xf32>
}

func.func @norm_many(%x: tensor<2200x3080xbf16> {tessera.name = "yx"}, %s: tensor<3080xf32> {tessera.name = "ys"}, %b: tensor<3080xf32> {tessera.name = "yb"})
    -> (tensor<2200x3080xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<2200x3080xbf16> -> tensor<2200x3080xf32>
  %n = tessera.layernorm_safe %f, %s, %b {axes = [1], eps = 1.0e-5} : (tensor<2200x3080xf32>, tensor<3080xf32>, tensor<3080xf32>) -> tensor<2200x3080xf32>
  %y = tessera.cast %n : tensor<2200x3080xf32> -> tensor<2200x3080xbf16>
  return %y : tensor<2200x3080xbf16>
}
func.func @norm_grad_odd(%x: tensor<301x1003xf32> {tessera.name = "px"}, %s: tensor<1003xf32> {tessera.name = "ps"}, %g: tensor<301x1003xf32> {tessera.name = "pg"}) -> (tensor<301x1003xf32> {tessera.name = "dx"}, tensor<1003xf32> {tessera.name = "ds"}, tensor<1003xf32> {tessera.name = "db"}) attributes {tessera.entry = "infer"} {
  %v1 = tessera.mean %x {axes = [1]} : tensor<301x1003xf32> -> tensor<301xf32>
  %v2 = tessera.reshape %v1 : tensor<301xf32> -> tensor<301x1xf32>
  %v3 = tessera.sub %x, %v2 : (tensor<301x1003xf32>, tensor<301x1xf32>) -> tensor<301x1003xf32>
  %v4 = tessera.mul %v3, %v3 : tensor<301x1003xf32>
  %v5 = tessera.mean %v4 {axes = [1]} : tensor<301x1003xf32> -> tensor<301xf32>
  %v6 = tessera.constant dense<1.0e-5> : tensor<f32>
  %v7 = tessera.add %v5, %v6 : (tensor<301xf32>, tensor<f32>) -> tensor<301xf32>
  %v8 = tessera.rsqrt %v7 : tensor<301xf32>
  %v9 = tessera.reshape %v8 : tensor<301xf32> -> tensor<301x1xf32>
  %v10 = tessera.mul %v3, %v9 : (tensor<301x1003xf32>, tensor<301x1xf32>) -> tensor<301x1003xf32>
  %v11 = tessera.mul %g, %s : (tensor<301x1003xf32>, tensor<1003xf32>) -> tensor<301x1003xf32>
  %v12 = tessera.mul %v11, %v10 : tensor<301x1003xf32>
  %v13 = tessera.mean %v12 {axes = [1]} : tensor<301x1003xf32> -> tensor<301xf32>
  %v14 = tessera.reshape %v13 : tensor<301xf32> -> tensor<301x1xf32>
  %v15 = tessera.mul %v10, %v14 : (tensor<301x1003xf32>, tensor<301x1xf32>) -> tensor<301x1003xf32>
  %v16 = tessera.mean %v11 {axes = [1]} : tensor<301x1003xf32> -> tensor<301xf32>
  %v17 = tessera.reshape %v16 : tensor<301xf32> -> tensor<301x1xf32>
  %v18 = tessera.sub %v11, %v17 : (tensor<301x1003xf32>, tensor<301x1xf32>) -> tensor<301x1003xf32>
  %v19 = tessera.sub %v18, %v15 : tensor<301x1003xf32>
  %v20 = tessera.mul %v19, %v9 : (tensor<301x1003xf32>, tensor<301x1xf32>) -> tensor<301x1003xf32>
  %v21 = tessera.mul %g, %v10 : tensor<301x1003xf32>
  %v22 = tessera.sum %v21 {axes = [0]} : tensor<301x1003xf32> -> tensor<1003xf32>
  %v23 = tessera.sum %g {axes = [0]} : tensor<301x1003xf32> -> tensor<1003xf32>
  return %v20, %v22, %v23 : tensor<301x1003xf32>, tensor<1003xf32>, tensor<1003xf32>
}
func.func @norm_grad_wide(%x: tensor<1100x4096xbf16> {tessera.name = "ix"}, %s: tensor<4096xf32> {tessera.name = "is"}, %g: tensor<1100x4096xbf16> {tessera.name = "ig"}) -> (tensor<1100x4096xbf16> {tessera.name = "dx"}, tensor<4096xf32> {tessera.name = "ds"}, tensor<4096xf32> {tessera.name = "db"}) attributes {tessera.entry = "infer"} {
  %v1 = tessera.cast %x : tensor<1100x4096xbf16> -> tensor<1100x4096xf32>
  %v2 = tessera.cast %g : tensor<1100x4096xbf16> -> tensor<1100x4096xf32>
  %v3 = tessera.mean %v1 {axes = [1]} : tensor<1100x4096xf32> -> tensor<1100xf32>
  %v4 = tessera.reshape %v3 : tensor<1100xf32> -> tensor<1100x1xf32>
  %v5 = tessera.sub %v1, %v4 : (tensor<1100x4096xf32>, tensor<1100x1xf32>) -> tensor<1100x4096xf32>
  %v6 = tessera.mul %v5, %v5 : tensor<1100x4096xf32>
  %v7 = tessera.mean %v6 {axes = [1]} : tensor<1100x4096xf32> -> tensor<1100xf32>
  %v8 = tessera.constant dense<1.0e-5> : tensor<f32>
  %v9 = tessera.add %v7, %v8 : (tensor<1100xf32>, tensor<f32>) -> tensor<1100xf32>
  %v10 = tessera.rsqrt %v9 : tensor<1100xf32>
  %v11 = tessera.reshape %v10 : tensor<1100xf32> -> tensor<1100x1xf32>
  %v12 = tessera.mul %v5, %v11 : (tensor<1100x4096xf32>, tensor<1100x1xf32>) -> tensor<1100x4096xf32>
  %v13 = tessera.mul %v2, %s : (tensor<1100x4096xf32>, tensor<4096xf32>) -> tensor<1100x4096xf32>
  %v14 = tessera.mul %v13, %v12 : tensor<1100x4096xf32>
  %v15 = tessera.mean %v14 {axes = [1]} : tensor<1100x4096xf32> -> tensor<1100xf32>
  %v16 = tessera.reshape %v15 : tensor<1100xf32> -> tensor<1100x1xf32>
  %v17 = tessera.mul %v12, %v16 : (tensor<1100x4096xf32>, tensor<1100x1xf32>) -> tensor<1100x4096xf32>
  %v18 = tessera.mean %v13 {axes = [1]} : tensor<1100x4096xf32> -> tensor<1100xf32>
  %v19 = tessera.reshape %v18 : tensor<1100xf32> -> tensor<1100x1xf32>
  %v20 = tessera.sub %v13, %v19 : (tensor<1100x4096xf32>, tensor<1100x1xf32>) -> tensor<1100x4096xf32>
  %v21 = tessera.sub %v20, %v17 : tensor<1100x4096xf32>
  %v22 = tessera.mul %v21, %v11 : (tensor<1100x4096xf32>, tensor<1100x1xf32>) -> tensor<1100x4096xf32>
  %v23 = tessera.cast %v22 : tensor<1100x4096xf32> -> tensor<1100x4096xbf16>
  %v24 = tessera.mul %v2, %v12 : tensor<1100x4096xf32>
  %v25 = tessera.sum %v24 {axes = [0]} : tensor<1100x4096xf32> -> tensor<4096xf32>
  %v26 = tessera.sum %v2 {axes = [0]} : tensor<1100x4096xf32> -> tensor<4096xf32>
  return %v23, %v25, %v26 : tensor<1100x4096xbf16>, tensor<4096xf32>, tensor<4096xf32>
}
func.func @cross_many(%x: tensor<600x4104xbf16> {tessera.name = "jx"}, %n: tensor<600xi64> {tessera.name = "jn"}, %d: tensor<600xf32> {tessera.name = "jd"})
    -> (tensor<600xf32> {tessera.name = "loss"}, tensor<600x4104xbf16> {tessera.name = "dx"}) attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<600x4104xbf16> -> tensor<600x4104xf32>
  %y = tessera.cross_entropy %f, %n : (tensor<600x4104xf32>, tensor<600xi64>) -> tensor<600xf32>
  %g = tessera.cross_entropy_grad %f, %n, %d : (tensor<600x4104xf32>, tensor<600xi64>, tensor<600xf32>) -> tensor<600x4104xf32>
  %h = tessera.cast %g : tensor<600x4104xf32> -> tensor<600x4104xbf16>
  return %y, %h : tensor<600xf32>, tensor<600x4104xbf16>
}
func.func @gelu_slopes(%a: tensor<2060x40xbf16> {tessera.name = "ya"}, %b: tensor<40x1544xbf16> {tessera.name = "yw"}, %c: tensor<1544xbf16> {tessera.name = "yc"})
    -> (tensor<2060x1544xbf16> {tessera.name = "y"}, tensor<2060x1544xbf16> {tessera.name = "slope"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b : (tensor<2060x40xbf16>, tensor<40x1544xbf16>) -> tensor<2060x1544xbf16>
  %u = tessera.add %m, %c : (tensor<2060x1544xbf16>, tensor<1544xbf16>) -> tensor<2060x1544xbf16>
  %y = tessera.gelu %u {approximate = "tanh"} : tensor<2060x1544xbf16>
  %one = tessera.constant dense<1.0> : tensor<2060x1544xf32>
  %low = tessera.constant dense<1.5957691216057308> : tensor<2060x1544xf32>
  %high = tessera.constant dense<0.071354816272600250> : tensor<2060x1544xf32>
  %thrice = tessera.constant dense<0.214064448817800750> : tensor<2060x1544xf32>
  %x = tessera.cast %u : tensor<2060x1544xbf16> -> tensor<2060x1544xf32>
  %q = tessera.mul %x, %x : tensor<2060x1544xf32>
  %qh = tessera.mul %q, %high : tensor<2060x1544xf32>
  %f = tessera.add %qh, %low : tensor<2060x1544xf32>
  %qt = tessera.mul %q, %thrice : tensor<2060x1544xf32>
  %g = tessera.add %qt, %low : tensor<2060x1544xf32>
  %w = tessera.mul %x, %f : tensor<2060x1544xf32>
  %s = tessera.sigmoid %w : tensor<2060x1544xf32>
  %r = tessera.sub %one, %s : tensor<2060x1544xf32>
  %sr = tessera.mul %s, %r : tensor<2060x1544xf32>
  %xs = tessera.mul %x, %sr : tensor<2060x1544xf32>
  %d = tessera.mul %xs, %g : tensor<2060x1544xf32>
  %sum = tessera.add %s, %d : tensor<2060x1544xf32>
  %slope = tessera.cast %sum : tensor<2060x1544xf32> -> tensor<2060x1544xbf16>
  return %y, %slope : tensor<2060x1544xbf16>, tensor<2060x1544xbf16>
}
func.func @gelu_slopes_large(%a: tensor<4100x512xbf16> {tessera.name = "yd"}, %b: tensor<512x1536xbf16> {tessera.name = "ye"}, %c: tensor<1536xbf16> {tessera.name = "yf"})
    -> (tensor<4100x1536xbf16> {tessera.name = "y"}, tensor<4100x1536xbf16> {tessera.name = "slope"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b : (tensor<4100x512xbf16>, tensor<512x1536xbf16>) -> tensor<4100x1536xbf16>
  %part = tessera.constant dense<0.0625> : tensor<4100x1536xbf16>
  %n = tessera.mul %m, %part : tensor<4100x1536xbf16>
  %u = tessera.add %n, %c : (tensor<4100x1536xbf16>, tensor<1536xbf16>) -> tensor<4100x1536xbf16>
  %y = tessera.gelu %u {approximate = "tanh"} : tensor<4100x1536xbf16>
  %one = tessera.constant dense<1.0> : tensor<4100x1536xf32>
  %low = tessera.constant dense<1.5957691216057308> : tensor<4100x1536xf32>
  %high = tessera.constant dense<0.071354816272600250> : tensor<4100x1536xf32>
  %thrice = tessera.constant dense<0.214064448817800750> : tensor<4100x1536xf32>
  %x = tessera.cast %u : tensor<4100x1536xbf16> -> tensor<4100x1536xf32>
  %q = tessera.mul %x, %x : tensor<4100x1536xf32>
  %qh = tessera.mul %q, %high : tensor<4100x1536xf32>
  %f = tessera.add %qh, %low : tensor<4100x1536xf32>
  %qt = tessera.mul %q, %thrice : tensor<4100x1536xf32>
  %g = tessera.add %qt, %low : tensor<4100x1536xf32>
  %w = tessera.mul %x, %f : tensor<4100x1536xf32>
  %s = tessera.sigmoid %w : tensor<4100x1536xf32>
  %r = tessera.sub %one, %s : tensor<4100x1536xf32>
  %sr = tessera.mul %s, %r : tensor<4100x1536xf32>
  %xs = tessera.mul %x, %sr : tensor<4100x1536xf32>
  %d = tessera.mul %xs, %g : tensor<4100x1536xf32>
  %sum = tessera.add %s, %d : tensor<4100x1536xf32>
  %slope = tessera.cast %sum : tensor<4100x1536xf32> -> tensor<4100x1536xbf16>
  return %y, %slope : tensor<4100x1536xbf16>, tensor<4100x1536xbf16>
}
func.func @unit_gelu(%x: tensor<300x264xbf16> {tessera.name = "kx"}, %b: tensor<264xf32> {tessera.name = "kb"}) -> (tensor<300x264xbf16> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %f = tessera.cast %x : tensor<300x264xbf16> -> tensor<300x264xf32>
  %s = tessera.add %f, %b : (tensor<300x264xf32>, tensor<264xf32>) -> tensor<300x264xf32>
  %g = tessera.gelu %s {approximate = "tanh"} : tensor<300x264xf32>
  %y = tessera.cast %g : tensor<300x264xf32> -> tensor<300x264xbf16>
  return %y : tensor<300x264xbf16>
}
func.func @tf32(%a: tensor<300x520xf32> {tessera.name = "1a"}, %b: tensor<392x520xf32> {tessera.name = "1b"})
    -> (tensor<300x392xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {transpose_b = true, allow_tf32} : (tensor<300x520xf32>, tensor<392x520xf32>) -> tensor<300x392xf32>
  return %y : tensor<300x392xf32>
}
func.func @tf32_plain(%a: tensor<512x776xf32> {tessera.name = "2a"}, %b: tensor<776x1032xf32> {tessera.name = "2b"})
    -> (tensor<512x1032xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {allow_tf32} : (tensor<512x776xf32>, tensor<776x1032xf32>) -> tensor<512x1032xf32>
  return %y : tensor<512x1032xf32>
}
func.func @tf32_transposed(%a: tensor<264x136xf32> {tessera.name = "3a"}, %b: tensor<200x264xf32> {tessera.name = "3b"})
    -> (tensor<136x200xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {transpose_a = true, transpose_b = true, allow_tf32} : (tensor<264x136xf32>, tensor<200x264xf32>) -> tensor<136x200xf32>
  return %y : tensor<136x200xf32>
}
func.func @tf32_grad(%a: tensor<1000x264xf32> {tessera.name = "4a"}, %b: tensor<1000x328xf32> {tessera.name = "4b"})
    -> (tensor<264x328xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {transpose_a = true, allow_tf32} : (tensor<1000x264xf32>, tensor<1000x328xf32>) -> tensor<264x328xf32>
  return %y : tensor<264x328xf32>
}
func.func @tf32_odd(%a: tensor<131x93xf32> {tessera.name = "5a"}, %b: tensor<93x77xf32> {tessera.name = "5b"})
    -> (tensor<131x77xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {allow_tf32} : (tensor<131x93xf32>, tensor<93x77xf32>) -> tensor<131x77xf32>
  return %y : tensor<131x77xf32>
}
func.func @tf32_deep(%a: tensor<200x5000xf32> {tessera.name = "6a"}, %b: tensor<5000x136xf32> {tessera.name = "6b"})
    -> (tensor<200x136xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {allow_tf32} : (tensor<200x5000xf32>, tensor<5000x136xf32>) -> tensor<200x136xf32>
  return %y : tensor<200x136xf32>
}
func.func @tf32_batched(%a: tensor<3x200x96xf32> {tessera.name = "7a"}, %b: tensor<3x96x136xf32> {tessera.name = "7b"})
    -> (tensor<3x200x136xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {allow_tf32} : (tensor<3x200x96xf32>, tensor<3x96x136xf32>) -> tensor<3x200x136xf32>
  return %y : tensor<3x200x136xf32>
}
func.func @tf32_fused(%a: tensor<300x264xf32> {tessera.name = "8a"}, %b: tensor<264x328xf32> {tessera.name = "8b"}, %c: tensor<328xf32> {tessera.name = "8c"}, %d: tensor<300x328xf32> {tessera.name = "8d"})
    -> (tensor<300x328xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b {allow_tf32} : (tensor<300x264xf32>, tensor<264x328xf32>) -> tensor<300x328xf32>
  %s = tessera.add %m, %c : (tensor<300x328xf32>, tensor<328xf32>) -> tensor<300x328xf32>
  %g = tessera.gelu %s {approximate = "tanh"} : tensor<300x328xf32>
  %y = tessera.add %g, %d : tensor<300x328xf32>
  return %y : tensor<300x328xf32>
}
func.func @tf32_narrow(%a: tensor<300x264xf32> {tessera.name = "9a"}, %b: tensor<264x328xf32> {tessera.name = "9b"})
    -> (tensor<300x328xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %m = tessera.matmul %a, %b {allow_tf32} : (tensor<300x264xf32>, tensor<264x328xf32>) -> tensor<300x328xf32>
  %s = tessera.relu %m : tensor<300x328xf32>
  %y = tessera.cast %s : tensor<300x328xf32> -> tensor<300x328xbf16>
  return %y : tensor<300x328xbf16>
}
func.func @f32_exact(%a: tensor<300x520xf32> {tessera.name = "0a"}, %b: tensor<392x520xf32> {tessera.name = "0b"})
    -> (tensor<300x392xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {transpose_b = true} : (tensor<300x520xf32>, tensor<392x520xf32>) -> tensor<300x392xf32>
  return %y : tensor<300x392xf32>
}
func.func @transpose(%x: tensor<3x133x70xf32> {tessera.name = "qx"}) -> (tensor<3x70x133xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.transpose %x {permutation = [0, 2, 1]} : tensor<3x133x70xf32> -> tensor<3x70x133xf32>
  return %y : tensor<3x70x133xf32>
}
func.func @tf32_square(%x: tensor<136x200xf32> {tessera.name = "hx"}) -> (tensor<200x200xf32> {tessera.name = "y"})
    attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %x, %x {transpose_a = true, allow_tf32} : tensor<136x200xf32> -> tensor<200x200xf32>
  return %y : tensor<200x200xf32>
}
func.func @attend_drop(%q: tensor<2x6x200x64xbf16> {tessera.name = "baq"}, %k: tensor<2x2x333x64xbf16> {tessera.name = "bak"}, %v: tensor<2x2x333x64xbf16> {tessera.name = "bav"},
                  %h: tensor<2xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<2x6x200x64xbf16> {tessera.name = "y"}, tensor<2x6x200xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %y, %l = tessera.attention %q, %k, %v, %h, %n, %s {causal, dropout = 0.1 : f64, stream = 77 : i64} : (tensor<2x6x200x64xbf16>, tensor<2x2x333x64xbf16>, tensor<2x2x333x64xbf16>, tensor<2xi64>, tensor<i64>, tensor<i64>) -> (tensor<2x6x200x64xbf16>, tensor<2x6x200xf32>)
  return %y, %l : tensor<2x6x200x64xbf16>, tensor<2x6x200xf32>
}
func.func @attend_drop_wide(%q: tensor<1x3x300x128xf16> {tessera.name = "bbq"}, %k: tensor<1x3x300x128xf16> {tessera.name = "bbk"}, %v: tensor<1x3x300x128xf16> {tessera.name = "bbv"},
                  %h: tensor<1xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<1x3x300x128xf16> {tessera.name = "y"}, tensor<1x3x300xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %y, %l = tessera.attention %q, %k, %v, %h, %n, %s {dropout = 0.5 : f64, stream = 77 : i64} : (tensor<1x3x300x128xf16>, tensor<1x3x300x128xf16>, tensor<1x3x300x128xf16>, tensor<1xi64>, tensor<i64>, tensor<i64>) -> (tensor<1x3x300x128xf16>, tensor<1x3x300xf32>)
  return %y, %l : tensor<1x3x300x128xf16>, tensor<1x3x300xf32>
}
func.func @attend_drop_blind(%q: tensor<2x2x300x128xbf16> {tessera.name = "bcq"}, %k: tensor<2x1x100x128xbf16> {tessera.name = "bck"}, %v: tensor<2x1x100x128xbf16> {tessera.name = "bcv"},
                  %h: tensor<2xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<2x2x300x128xbf16> {tessera.name = "y"}, tensor<2x2x300xf32> {tessera.name = "l"}) attributes {tessera.entry = "infer"} {
  %y, %l = tessera.attention %q, %k, %v, %h, %n, %s {causal, dropout = 0.3 : f64, stream = 77 : i64} : (tensor<2x2x300x128xbf16>, tensor<2x1x100x128xbf16>, tensor<2x1x100x128xbf16>, tensor<2xi64>, tensor<i64>, tensor<i64>) -> (tensor<2x2x300x128xbf16>, tensor<2x2x300xf32>)
  return %y, %l : tensor<2x2x300x128xbf16>, tensor<2x2x300xf32>
}
func.func @attend_drop_all(%q: tensor<3x3x130x64xbf16> {tessera.name = "bdq"}, %k: tensor<3x3x450x64xbf16> {tessera.name = "bdk"}, %v: tensor<3x3x450x64xbf16> {tessera.name = "bdv"},
                  %h: tensor<3xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<3x3x130x64xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.attention %q, %k, %v, %h, %n, %s {dropout = 0.1 : f64, stream = 77 : i64} : (tensor<3x3x130x64xbf16>, tensor<3x3x450x64xbf16>, tensor<3x3x450x64xbf16>, tensor<3xi64>, tensor<i64>, tensor<i64>) -> tensor<3x3x130x64xbf16>
  return %y : tensor<3x3x130x64xbf16>
}
func.func @attend_drop_most(%q: tensor<1x2x200x64xbf16> {tessera.name = "beq"}, %k: tensor<1x1x200x64xbf16> {tessera.name = "bek"}, %v: tensor<1x1x200x64xbf16> {tessera.name = "bev"},
                  %h: tensor<1xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<1x2x200x64xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.attention %q, %k, %v, %h, %n, %s {causal, dropout = 0.98 : f64, stream = 77 : i64} : (tensor<1x2x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1xi64>, tensor<i64>, tensor<i64>) -> tensor<1x2x200x64xbf16>
  return %y : tensor<1x2x200x64xbf16>
}
func.func @grad_drop(%q: tensor<1x6x640x64xbf16> {tessera.name = "ggq"}, %k: tensor<1x2x640x64xbf16> {tessera.name = "ggk"}, %v: tensor<1x2x640x64xbf16> {tessera.name = "ggv"}, %o: tensor<1x6x640x64xbf16> {tessera.name = "ggo"}, %l: tensor<1x6x640xf32> {tessera.name = "ggl"}, %g: tensor<1x6x640x64xbf16> {tessera.name = "ggg"},
                  %h: tensor<1xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<1x6x640x64xbf16> {tessera.name = "dq"}, tensor<1x2x640x64xbf16> {tessera.name = "dk"}, tensor<1x2x640x64xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g, %h, %n, %s {causal, dropout = 0.1 : f64, stream = 4000000000 : i64} : (tensor<1x6x640x64xbf16>, tensor<1x2x640x64xbf16>, tensor<1x2x640x64xbf16>, tensor<1x6x640x64xbf16>, tensor<1x6x640xf32>, tensor<1x6x640x64xbf16>, tensor<1xi64>, tensor<i64>, tensor<i64>) -> (tensor<1x6x640x64xbf16>, tensor<1x2x640x64xbf16>, tensor<1x2x640x64xbf16>)
  return %dq, %dk, %dv : tensor<1x6x640x64xbf16>, tensor<1x2x640x64xbf16>, tensor<1x2x640x64xbf16>
}
func.func @grad_drop_wide(%q: tensor<1x4x384x128xbf16> {tessera.name = "ghq"}, %k: tensor<1x2x384x128xbf16> {tessera.name = "ghk"}, %v: tensor<1x2x384x128xbf16> {tessera.name = "ghv"}, %o: tensor<1x4x384x128xbf16> {tessera.name = "gho"}, %l: tensor<1x4x384xf32> {tessera.name = "ghl"}, %g: tensor<1x4x384x128xbf16> {tessera.name = "ghg"},
                  %h: tensor<1xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<1x4x384x128xbf16> {tessera.name = "dq"}, tensor<1x2x384x128xbf16> {tessera.name = "dk"}, tensor<1x2x384x128xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g, %h, %n, %s {causal, dropout = 0.5 : f64, stream = 4000000000 : i64} : (tensor<1x4x384x128xbf16>, tensor<1x2x384x128xbf16>, tensor<1x2x384x128xbf16>, tensor<1x4x384x128xbf16>, tensor<1x4x384xf32>, tensor<1x4x384x128xbf16>, tensor<1xi64>, tensor<i64>, tensor<i64>) -> (tensor<1x4x384x128xbf16>, tensor<1x2x384x128xbf16>, tensor<1x2x384x128xbf16>)
  return %dq, %dk, %dv : tensor<1x4x384x128xbf16>, tensor<1x2x384x128xbf16>, tensor<1x2x384x128xbf16>
}
func.func @grad_drop_all(%q: tensor<1x3x512x64xf16> {tessera.name = "giq"}, %k: tensor<1x3x512x64xf16> {tessera.name = "gik"}, %v: tensor<1x3x512x64xf16> {tessera.name = "giv"}, %o: tensor<1x3x512x64xf16> {tessera.name = "gio"}, %l: tensor<1x3x512xf32> {tessera.name = "gil"}, %g: tensor<1x3x512x64xf16> {tessera.name = "gig"},
                  %h: tensor<1xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<1x3x512x64xf16> {tessera.name = "dq"}, tensor<1x3x512x64xf16> {tessera.name = "dk"}, tensor<1x3x512x64xf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g, %h, %n, %s {dropout = 0.1 : f64, stream = 4000000000 : i64} : (tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>, tensor<1x3x512xf32>, tensor<1x3x512x64xf16>, tensor<1xi64>, tensor<i64>, tensor<i64>) -> (tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>)
  return %dq, %dk, %dv : tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>, tensor<1x3x512x64xf16>
}
func.func @grad_drop_all_wide(%q: tensor<1x4x640x128xbf16> {tessera.name = "gjq"}, %k: tensor<1x1x640x128xbf16> {tessera.name = "gjk"}, %v: tensor<1x1x640x128xbf16> {tessera.name = "gjv"}, %o: tensor<1x4x640x128xbf16> {tessera.name = "gjo"}, %l: tensor<1x4x640xf32> {tessera.name = "gjl"}, %g: tensor<1x4x640x128xbf16> {tessera.name = "gjg"},
                  %h: tensor<1xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<1x4x640x128xbf16> {tessera.name = "dq"}, tensor<1x1x640x128xbf16> {tessera.name = "dk"}, tensor<1x1x640x128xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g, %h, %n, %s {dropout = 0.2 : f64, stream = 4000000000 : i64} : (tensor<1x4x640x128xbf16>, tensor<1x1x640x128xbf16>, tensor<1x1x640x128xbf16>, tensor<1x4x640x128xbf16>, tensor<1x4x640xf32>, tensor<1x4x640x128xbf16>, tensor<1xi64>, tensor<i64>, tensor<i64>) -> (tensor<1x4x640x128xbf16>, tensor<1x1x640x128xbf16>, tensor<1x1x640x128xbf16>)
  return %dq, %dk, %dv : tensor<1x4x640x128xbf16>, tensor<1x1x640x128xbf16>, tensor<1x1x640x128xbf16>
}
func.func @grad_drop_odd(%q: tensor<1x2x200x64xbf16> {tessera.name = "gkq"}, %k: tensor<1x1x200x64xbf16> {tessera.name = "gkk"}, %v: tensor<1x1x200x64xbf16> {tessera.name = "gkv"}, %o: tensor<1x2x200x64xbf16> {tessera.name = "gko"}, %l: tensor<1x2x200xf32> {tessera.name = "gkl"}, %g: tensor<1x2x200x64xbf16> {tessera.name = "gkg"},
                  %h: tensor<1xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<1x2x200x64xbf16> {tessera.name = "dq"}, tensor<1x1x200x64xbf16> {tessera.name = "dk"}, tensor<1x1x200x64xbf16> {tessera.name = "dv"}) attributes {tessera.entry = "infer"} {
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %g, %h, %n, %s {causal, dropout = 0.1 : f64, stream = 4000000000 : i64} : (tensor<1x2x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x2x200x64xbf16>, tensor<1x2x200xf32>, tensor<1x2x200x64xbf16>, tensor<1xi64>, tensor<i64>, tensor<i64>) -> (tensor<1x2x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x1x200x64xbf16>)
  return %dq, %dk, %dv : tensor<1x2x200x64xbf16>, tensor<1x1x200x64xbf16>, tensor<1x1x200x64xbf16>
}
func.func @sides_drop(%x: tensor<2x256x320xbf16> {tessera.name = "sfx"}, %g: tensor<2x256x192xbf16> {tessera.name = "sfg"},
                      %h: tensor<2xi64> {tessera.name = "heads"}, %n: tensor<i64> {tessera.name = "step"}, %s: tensor<i64> {tessera.name = "seed"})
    -> (tensor<2x256x320xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %qf = tessera.slice %x {start = [0, 0, 0], size = [2, 256, 192]} : tensor<2x256x320xbf16> -> tensor<2x256x192xbf16>
  %qs = tessera.reshape %qf : tensor<2x256x192xbf16> -> tensor<2x256x3x64xbf16>
  %q = tessera.transpose %qs {permutation = [0, 2, 1, 3]} : tensor<2x256x3x64xbf16> -> tensor<2x3x256x64xbf16>
  %kf = tessera.slice %x {start = [0, 0, 192], size = [2, 256, 64]} : tensor<2x256x320xbf16> -> tensor<2x256x64xbf16>
  %ks = tessera.reshape %kf : tensor<2x256x64xbf16> -> tensor<2x256x1x64xbf16>
  %k = tessera.transpose %ks {permutation = [0, 2, 1, 3]} : tensor<2x256x1x64xbf16> -> tensor<2x1x256x64xbf16>
  %vf = tessera.slice %x {start = [0, 0, 256], size = [2, 256, 64]} : tensor<2x256x320xbf16> -> tensor<2x256x64xbf16>
  %vs = tessera.reshape %vf : tensor<2x256x64xbf16> -> tensor<2x256x1x64xbf16>
  %v = tessera.transpose %vs {permutation = [0, 2, 1, 3]} : tensor<2x256x1x64xbf16> -> tensor<2x1x256x64xbf16>
  %o, %l = tessera.attention %q, %k, %v, %h, %n, %s {causal, dropout = 0.1 : f64, stream = 77 : i64} : (tensor<2x3x256x64xbf16>, tensor<2x1x256x64xbf16>, tensor<2x1x256x64xbf16>, tensor<2xi64>, tensor<i64>, tensor<i64>) -> (tensor<2x3x256x64xbf16>, tensor<2x3x256xf32>)
  %gg = tessera.add %g, %g : tensor<2x256x192xbf16>
  %gs = tessera.reshape %gg : tensor<2x256x192xbf16> -> tensor<2x256x3x64xbf16>
  %gt = tessera.transpose %gs {permutation = [0, 2, 1, 3]} : tensor<2x256x3x64xbf16> -> tensor<2x3x256x64xbf16>
  %dq, %dk, %dv = tessera.attention_grad %q, %k, %v, %o, %l, %gt, %h, %n, %s {causal, dropout = 0.1 : f64, stream = 77 : i64} : (tensor<2x3x256x64xbf16>, tensor<2x1x256x64xbf16>, tensor<2x1x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256xf32>, tensor<2x3x256x64xbf16>, tensor<2xi64>, tensor<i64>, tensor<i64>) -> (tensor<2x3x256x64xbf16>, tensor<2x1x256x64xbf16>, tensor<2x1x256x64xbf16>)
  %dqs = tessera.transpose %dq {permutation = [0, 2, 1, 3]} : tensor<2x3x256x64xbf16> -> tensor<2x256x3x64xbf16>
  %dqf = tessera.reshape %dqs : tensor<2x256x3x64xbf16> -> tensor<2x256x192xbf16>
  %dks = tessera.transpose %dk {permutation = [0, 2, 1, 3]} : tensor<2x1x256x64xbf16> -> tensor<2x256x1x64xbf16>
  %dkf = tessera.reshape %dks : tensor<2x256x1x64xbf16> -> tensor<2x256x64xbf16>
  %dvs = tessera.transpose %dv {permutation = [0, 2, 1, 3]} : tensor<2x1x256x64xbf16> -> tensor<2x256x1x64xbf16>
  %dvf = tessera.reshape %dvs : tensor<2x256x1x64xbf16> -> tensor<2x256x64xbf16>
  %y = tessera.concat %dqf, %dkf, %dvf {axis = 2 : i64} : (tensor<2x256x192xbf16>, tensor<2x256x64xbf16>, tensor<2x256x64xbf16>) -> tensor<2x256x320xbf16>
  return %y : tensor<2x256x320xbf16>
}
func.func @pitch(%x: tensor<520x256xbf16> {tessera.name = "Aa"}, %v: tensor<256x776xbf16> {tessera.name = "Ab"}, %w: tensor<776x264xbf16> {tessera.name = "Ac"})
    -> (tensor<520x264xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v : (tensor<520x256xbf16>, tensor<256x776xbf16>) -> tensor<520x776xbf16>
  %h = tessera.gelu %p {approximate = "tanh"} : tensor<520x776xbf16>
  %y = tessera.matmul %h, %w : (tensor<520x776xbf16>, tensor<776x264xbf16>) -> tensor<520x264xbf16>
  return %y : tensor<520x264xbf16>
}
func.func @pitch_odd(%x: tensor<520x256xf16> {tessera.name = "Ba"}, %v: tensor<256x1001xf16> {tessera.name = "Bb"}, %w: tensor<1001x264xf16> {tessera.name = "Bc"})
    -> (tensor<520x264xf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v : (tensor<520x256xf16>, tensor<256x1001xf16>) -> tensor<520x1001xf16>
  %h = tessera.relu %p : tensor<520x1001xf16>
  %y = tessera.matmul %h, %w : (tensor<520x1001xf16>, tensor<1001x264xf16>) -> tensor<520x264xf16>
  return %y : tensor<520x264xf16>
}
// What lies where the factor will, and where its rows have gaps, is infinite.
func.func @pitch_poison(%x: tensor<520x256xbf16> {tessera.name = "Ca"}, %u: tensor<256x1024xbf16> {tessera.name = "Cb"}, %v: tensor<256x999xbf16> {tessera.name = "Cc"}, %w: tensor<999x264xbf16> {tessera.name = "Cd"})
    -> (tensor<520x264xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %large = tessera.constant dense<3.0e+38> : tensor<bf16>
  %two = tessera.constant dense<2.0> : tensor<f32>
  %part = tessera.constant dense<4.8828125e-04> : tensor<f32>
  %m = tessera.matmul %x, %u : (tensor<520x256xbf16>, tensor<256x1024xbf16>) -> tensor<520x1024xbf16>
  %i = tessera.mul %m, %large : (tensor<520x1024xbf16>, tensor<bf16>) -> tensor<520x1024xbf16>
  %f = tessera.cast %i : tensor<520x1024xbf16> -> tensor<520x1024xf32>
  %a = tessera.abs %f : tensor<520x1024xf32>
  %n = tessera.min %a, %two : (tensor<520x1024xf32>, tensor<f32>) -> tensor<520x1024xf32>
  %s = tessera.sum %n {axes = [1]} : tensor<520x1024xf32> -> tensor<520xf32>
  %o = tessera.mul %s, %part : (tensor<520xf32>, tensor<f32>) -> tensor<520xf32>
  %c = tessera.cast %o : tensor<520xf32> -> tensor<520xbf16>
  %one = tessera.reshape %c : tensor<520xbf16> -> tensor<520x1xbf16>
  %p = tessera.matmul %x, %v : (tensor<520x256xbf16>, tensor<256x999xbf16>) -> tensor<520x999xbf16>
  %h = tessera.mul %p, %one : (tensor<520x999xbf16>, tensor<520x1xbf16>) -> tensor<520x999xbf16>
  %y = tessera.matmul %h, %w : (tensor<520x999xbf16>, tensor<999x264xbf16>) -> tensor<520x264xbf16>
  return %y : tensor<520x264xbf16>
}
func.func @pitch_batch(%x: tensor<3x200x96xbf16> {tessera.name = "Da"}, %v: tensor<96x776xbf16> {tessera.name = "Db"}, %w: tensor<3x136x776xbf16> {tessera.name = "Dc"})
    -> (tensor<3x200x136xbf16> {tessera.name = "y"}, tensor<3x200x200xbf16> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %h = tessera.matmul %x, %v : (tensor<3x200x96xbf16>, tensor<96x776xbf16>) -> tensor<3x200x776xbf16>
  %y = tessera.matmul %h, %w {transpose_b = true} : (tensor<3x200x776xbf16>, tensor<3x136x776xbf16>) -> tensor<3x200x136xbf16>
  %z = tessera.matmul %h, %h {transpose_b = true} : tensor<3x200x776xbf16> -> tensor<3x200x200xbf16>
  return %y, %z : tensor<3x200x136xbf16>, tensor<3x200x200xbf16>
}
func.func @pitch_back(%x: tensor<1100x256xbf16> {tessera.name = "Ea"}, %v: tensor<256x1000xbf16> {tessera.name = "Eb"}, %w: tensor<1000x264xbf16> {tessera.name = "Ec"}, %g: tensor<1100x264xbf16> {tessera.name = "Ed"})
    -> (tensor<256x1000xbf16> {tessera.name = "dv"}, tensor<1000x264xbf16> {tessera.name = "dw"}, tensor<1100x256xbf16> {tessera.name = "dx"}, tensor<1000xbf16> {tessera.name = "sums"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v : (tensor<1100x256xbf16>, tensor<256x1000xbf16>) -> tensor<1100x1000xbf16>
  %h = tessera.relu %p : tensor<1100x1000xbf16>
  %dw = tessera.matmul %h, %g {transpose_a = true} : (tensor<1100x1000xbf16>, tensor<1100x264xbf16>) -> tensor<1000x264xbf16>
  %dh = tessera.matmul %g, %w {transpose_b = true} : (tensor<1100x264xbf16>, tensor<1000x264xbf16>) -> tensor<1100x1000xbf16>
  %dp = tessera.mul %dh, %p : tensor<1100x1000xbf16>
  %dv = tessera.matmul %x, %dp {transpose_a = true} : (tensor<1100x256xbf16>, tensor<1100x1000xbf16>) -> tensor<256x1000xbf16>
  %dx = tessera.matmul %dp, %v {transpose_b = true} : (tensor<1100x1000xbf16>, tensor<256x1000xbf16>) -> tensor<1100x256xbf16>
  %s = tessera.sum %dp {axes = [0]} : tensor<1100x1000xbf16> -> tensor<1000xbf16>
  return %dv, %dw, %dx, %s : tensor<256x1000xbf16>, tensor<1000x264xbf16>, tensor<1100x256xbf16>, tensor<1000xbf16>
}
// An elementwise kernel reads one, and writes another.
func.func @pitch_between(%x: tensor<520x256xbf16> {tessera.name = "Fa"}, %v: tensor<256x776xbf16> {tessera.name = "Fb"}, %w: tensor<776x264xbf16> {tessera.name = "Fc"})
    -> (tensor<520x264xbf16> {tessera.name = "y"}, tensor<520x264xbf16> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v : (tensor<520x256xbf16>, tensor<256x776xbf16>) -> tensor<520x776xbf16>
  %y = tessera.matmul %p, %w : (tensor<520x776xbf16>, tensor<776x264xbf16>) -> tensor<520x264xbf16>
  %s = tessera.reduce_max %y {axes = [1]} : tensor<520x264xbf16> -> tensor<520xbf16>
  %c = tessera.reshape %s : tensor<520xbf16> -> tensor<520x1xbf16>
  %h = tessera.mul %p, %c : (tensor<520x776xbf16>, tensor<520x1xbf16>) -> tensor<520x776xbf16>
  %z = tessera.matmul %h, %w : (tensor<520x776xbf16>, tensor<776x264xbf16>) -> tensor<520x264xbf16>
  return %y, %z : tensor<520x264xbf16>, tensor<520x264xbf16>
}
func.func @pitch_norm(%x: tensor<1100x256xbf16> {tessera.name = "Ga"}, %v: tensor<256x776xbf16> {tessera.name = "Gb"}, %s: tensor<776xbf16> {tessera.name = "Gc"}, %b: tensor<776xbf16> {tessera.name = "Gd"}, %w: tensor<776x264xbf16> {tessera.name = "Ge"})
    -> (tensor<1100x264xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v : (tensor<1100x256xbf16>, tensor<256x776xbf16>) -> tensor<1100x776xbf16>
  %h = tessera.layernorm_safe %p, %s, %b {axes = [1], eps = 1.0e-5} : (tensor<1100x776xbf16>, tensor<776xbf16>, tensor<776xbf16>) -> tensor<1100x776xbf16>
  %y = tessera.matmul %h, %w : (tensor<1100x776xbf16>, tensor<776x264xbf16>) -> tensor<1100x264xbf16>
  return %y : tensor<1100x264xbf16>
}
func.func @pitch_tf32(%x: tensor<520x256xf32> {tessera.name = "Ha"}, %q: tensor<333x256xf32> {tessera.name = "Hb"}, %k: tensor<333x256xf32> {tessera.name = "Hc"})
    -> (tensor<520x520xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %a = tessera.matmul %x, %q {transpose_b = true, allow_tf32} : (tensor<520x256xf32>, tensor<333x256xf32>) -> tensor<520x333xf32>
  %b = tessera.matmul %x, %k {transpose_b = true, allow_tf32} : (tensor<520x256xf32>, tensor<333x256xf32>) -> tensor<520x333xf32>
  %y = tessera.matmul %a, %b {transpose_b = true, allow_tf32} : tensor<520x333xf32> -> tensor<520x520xf32>
  return %y : tensor<520x520xf32>
}
func.func @pitch_tf32_transposed(%x: tensor<1100x256xf32> {tessera.name = "Ia"}, %v: tensor<256x1001xf32> {tessera.name = "Ib"}, %w: tensor<1001x264xf32> {tessera.name = "Ic"})
    -> (tensor<1100x264xf32> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %p = tessera.matmul %x, %v {allow_tf32} : (tensor<1100x256xf32>, tensor<256x1001xf32>) -> tensor<1100x1001xf32>
  %h = tessera.relu %p : tensor<1100x1001xf32>
  %y = tessera.matmul %h, %w {allow_tf32} : (tensor<1100x1001xf32>, tensor<1001x264xf32>) -> tensor<1100x264xf32>
  return %y : tensor<1100x264xf32>
}
func.func @pitch_relayout(%a: tensor<264x1001xbf16> {tessera.name = "Ja"}, %b: tensor<1001x999xbf16> {tessera.name = "Jb"})
    -> (tensor<264x999xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<264x1001xbf16>, tensor<1001x999xbf16>) -> tensor<264x999xbf16>
  return %y : tensor<264x999xbf16>
}
func.func @pitch_relayout_transposed(%a: tensor<1001x264xbf16> {tessera.name = "Ka"}, %b: tensor<999x1001xbf16> {tessera.name = "Kb"})
    -> (tensor<264x999xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b {transpose_a = true, transpose_b = true} : (tensor<1001x264xbf16>, tensor<999x1001xbf16>) -> tensor<264x999xbf16>
  return %y : tensor<264x999xbf16>
}
func.func @pitch_relayout_half(%a: tensor<520x512xbf16> {tessera.name = "La"}, %b: tensor<512x1003xbf16> {tessera.name = "Lb"})
    -> (tensor<520x1003xbf16> {tessera.name = "y"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %a, %b : (tensor<520x512xbf16>, tensor<512x1003xbf16>) -> tensor<520x1003xbf16>
  return %y : tensor<520x1003xbf16>
}
func.func @few_1(%x: tensor<1x768xbf16> {tessera.name = "Ma"}, %w: tensor<768x2312xbf16> {tessera.name = "Mb"}, %v: tensor<1000x768xbf16> {tessera.name = "Mc"})
    -> (tensor<1x2312xbf16> {tessera.name = "y"}, tensor<1x1000xbf16> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %x, %w : (tensor<1x768xbf16>, tensor<768x2312xbf16>) -> tensor<1x2312xbf16>
  %z = tessera.matmul %x, %v {transpose_b = true} : (tensor<1x768xbf16>, tensor<1000x768xbf16>) -> tensor<1x1000xbf16>
  return %y, %z : tensor<1x2312xbf16>, tensor<1x1000xbf16>
}
func.func @few_4(%x: tensor<4x768xbf16> {tessera.name = "Na"}, %w: tensor<768x2312xbf16> {tessera.name = "Nb"}, %v: tensor<1000x768xbf16> {tessera.name = "Nc"})
    -> (tensor<4x2312xbf16> {tessera.name = "y"}, tensor<4x1000xbf16> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %x, %w : (tensor<4x768xbf16>, tensor<768x2312xbf16>) -> tensor<4x2312xbf16>
  %z = tessera.matmul %x, %v {transpose_b = true} : (tensor<4x768xbf16>, tensor<1000x768xbf16>) -> tensor<4x1000xbf16>
  return %y, %z : tensor<4x2312xbf16>, tensor<4x1000xbf16>
}
func.func @few_16(%x: tensor<16x768xbf16> {tessera.name = "Oa"}, %w: tensor<768x2312xbf16> {tessera.name = "Ob"}, %v: tensor<1000x768xbf16> {tessera.name = "Oc"})
    -> (tensor<16x2312xbf16> {tessera.name = "y"}, tensor<16x1000xbf16> {tessera.name = "z"}) attributes {tessera.entry = "infer"} {
  %y = tessera.matmul %x, %w : (tensor<16x768xbf16>, tensor<768x2312xbf16>) -> tensor<16x2312xbf16>
  %z = tessera.matmul %x, %v {transpose_b = true} : (tensor<16x768xbf16>, tensor<1000x768xbf16>) -> tensor<16x1000xbf16>
  return %y, %z : tensor<16x2312xbf16>, tensor<16x1000xbf16>
}
