#t let x0_$t = x[(at_$t + group) * 2u];
#t let x1_$t = x[(at_$t + group) * 2u + 1u];
#t let head_$t = heads[at_$t + group];
#t let step_$t = bitcast<f32>(head_$t.x);
#t let low_sum_$t = bitcast<i32>(head_$t.y << 16u) >> 16u;
#t let high_sum_$t = bitcast<i32>(head_$t.y) >> 16u;
#r let codes_$r = codes(row_$r * GROUPS + group);
#r let s_$r = scales(row_$r, group);
