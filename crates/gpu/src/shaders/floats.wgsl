#t let first_$t = (at_$t + group) * 8u;
#tq let x_$t_$q = x[first_$t + $qu];
#r let w_$r = values(row_$r, group);
#rtq acc_$r_$t += dot(w_$r[$q], x_$t_$q);
