#rt let a_$r_$t = dot4I8Packed(codes_$r.low.x, x0_$t.x) + dot4I8Packed(codes_$r.low.y, x0_$t.y);
#rt let b_$r_$t = dot4I8Packed(codes_$r.low.z, x0_$t.z) + dot4I8Packed(codes_$r.low.w, x0_$t.w);
#rt let c_$r_$t = dot4I8Packed(codes_$r.high.x, x1_$t.x) + dot4I8Packed(codes_$r.high.y, x1_$t.y);
#rt let d_$r_$t = dot4I8Packed(codes_$r.high.z, x1_$t.z) + dot4I8Packed(codes_$r.high.w, x1_$t.w);
#rt let low_$r_$t = a_$r_$t + b_$r_$t - MINUS * low_sum_$t;
#rt let high_$r_$t = c_$r_$t + d_$r_$t - MINUS * high_sum_$t;
