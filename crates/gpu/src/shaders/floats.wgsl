#t let first_$t = (at_$t + group) * 8u;
#tq let x_$t_$q = x[first_$t + $qu];
#r let w_$r = values(row_$r, group);
#rtq acc_$r_$t = fma(w_$r[$q].x, x_$t_$q.x, fma(w_$r[$q].y, x_$t_$q.y, acc_$r_$t));
#rtq acc_$r_$t = fma(w_$r[$q].z, x_$t_$q.z, fma(w_$r[$q].w, x_$t_$q.w, acc_$r_$t));
