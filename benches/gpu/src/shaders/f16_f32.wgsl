#t let x_$t = unit * 4u + $tu * (shape.k / 4u);
#t let a0_$t = x[x_$t]; let a1_$t = x[x_$t + 1u]; let a2_$t = x[x_$t + 2u]; let a3_$t = x[x_$t + 3u];
#r let l_$r = weights[base_$r + unit * 2u];
#r let h_$r = weights[base_$r + unit * 2u + 1u];
#r let w0_$r = vec4<f32>(unpack2x16float(l_$r.x), unpack2x16float(l_$r.y));
#r let w1_$r = vec4<f32>(unpack2x16float(l_$r.z), unpack2x16float(l_$r.w));
#r let w2_$r = vec4<f32>(unpack2x16float(h_$r.x), unpack2x16float(h_$r.y));
#r let w3_$r = vec4<f32>(unpack2x16float(h_$r.z), unpack2x16float(h_$r.w));
#rt acc_$r_$t += dot(w0_$r, a0_$t) + dot(w1_$r, a1_$t) + dot(w2_$r, a2_$t) + dot(w3_$r, a3_$t);
