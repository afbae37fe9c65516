/* The field on the sky: coordinates as text, and the zenith angle that follows from them. */
#include "params_load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Fills `s` from parameters that are right; what is not given is NAN. */
void params_sky(const params *par, sky *s) {
    double hour_angle, jd;
    *s = (sky){NAN, NAN, par->sky_position_angle, NAN, NAN, NAN};
    if (par->sky_ra == NULL || par->sky_dec == NULL || !sky_read_angle(par->sky_ra, true, &s->ra) ||
        !sky_read_angle(par->sky_dec, false, &s->dec))
        return;
    if (!params_given(s->angle))
        s->angle = 0;
    if (par->sky_hour_angle != NULL && sky_read_angle(par->sky_hour_angle, true, &hour_angle))
        sky_from_hour_angle(s, hour_angle, par->sky_latitude);
    else if (par->sky_time != NULL && sky_read_time(par->sky_time, &jd))
        sky_from_time(s, jd, par->sky_longitude, par->sky_latitude);
}

static status check_angle(const params_loader *l, const char *key, const char *text, bool hours,
                          double most, const char *expected) {
    double v;
    if (text == NULL || (sky_read_angle(text, hours, &v) && fabs(v) <= most))
        return MOAO_OK;
    return yaml_tree_fail(param_node(l->root, key), key, "'%s' is no such angle, expected %s",
                          yaml_tree_quote(text).s, expected);
}

static status missing(const params_loader *l, const char *key, const char *expected) {
    return yaml_tree_fail(param_node(l->root, "sky"), key, "missing, expected %s", expected);
}

/* Everything that a key needs beside it. */
static status check_company(const params_loader *l) {
    const params *par = l->par;
    const bool placed = par->sky_hour_angle != NULL || par->sky_time != NULL;
    if ((par->sky_ra != NULL) != (par->sky_dec != NULL))
        return missing(l, par->sky_ra != NULL ? "sky.dec" : "sky.ra", "it with the other one");
    if (placed && par->sky_ra == NULL)
        return missing(l, "sky.ra", "the field's centre with its hour angle or time");
    if (placed && !params_given(par->sky_latitude))
        return missing(l, "sky.latitude", "an angle in deg with an hour angle or a time");
    if (par->sky_time != NULL && !params_given(par->sky_longitude))
        return missing(l, "sky.longitude", "an angle in deg, east positive, with a time");
    if (par->sky_lgs == SKY_PUPIL && !placed)
        return missing(l, "sky.hour_angle", "it or a time, as sky.lgs is pupil");
    if (par->sky_pupil == SKY_PUPIL_ZENITH && !placed)
        return missing(l, "sky.hour_angle", "it or a time, as sky.pupil is zenith");
    return MOAO_OK;
}

status params_read_sky(params_loader *l) {
    static const char hours[] = "hh:mm:ss, or degrees", degrees[] = "dd:mm:ss, or degrees";
    params *par = l->par;
    const ynode *map = yaml_tree_get(l->root, "sky");
    sky s;
    double jd;
    status st = MOAO_OK;
    if (map == NULL)
        return st;
    TRY(params_check_alternatives(map, "sky", "sky"));
    TRY(check_angle(l, "sky.ra", par->sky_ra, true, 2 * M_PI, hours));
    TRY(check_angle(l, "sky.dec", par->sky_dec, false, M_PI / 2, degrees));
    TRY(check_angle(l, "sky.hour_angle", par->sky_hour_angle, true, 2 * M_PI, hours));
    TRY(check_company(l));
    if (par->sky_time != NULL && !sky_read_time(par->sky_time, &jd))
        return yaml_tree_fail(param_node(l->root, "sky.time"), "sky.time",
                              "'%s' is no date and time of the calendar, expected them as "
                              "2026-11-22T03:14:15 (UTC)",
                              yaml_tree_quote(par->sky_time).s);
    params_sky(par, &s);
    if (!params_given(s.zenith))
        return st;
    if (!(s.zenith < 80 * M_PI / 180))
        return yaml_tree_fail(
            map, "sky", "the field's centre is %.1f deg from the zenith, expected less than 80",
            s.zenith * 180 / M_PI);
    const ynode *given = param_node(l->root, "telescope.zenith");
    if (given != NULL && fabs(par->telescope_zenith - s.zenith) > 1e-9)
        TRY(params_note(par, "telescope.zenith: %.4g deg is not used, as %.4g deg follow from sky",
                        par->telescope_zenith * 180 / M_PI, s.zenith * 180 / M_PI));
    par->telescope_zenith = s.zenith;
done:
    return st;
}
