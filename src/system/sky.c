#include "system/sky.h"

#include "base/decimal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double DEGREE = M_PI / 180, ARCSEC = M_PI / 648000;

/* --- the tangent plane */

/* East and north of the tangent plane from x and y, and back: north lies `angle` clockwise from y,
 * and east a quarter turn counterclockwise from north. */
static void to_plane(const sky *s, const double xy[2], double *xi, double *eta) {
    const double c = cos(s->angle), n = sin(s->angle);
    *xi = -c * xy[0] + n * xy[1];
    *eta = n * xy[0] + c * xy[1];
}

bool sky_project(const sky *s, double ra, double dec, double xy[2]) {
    const double da = ra - s->ra, c = cos(s->angle), n = sin(s->angle);
    const double depth = sin(dec) * sin(s->dec) + cos(dec) * cos(s->dec) * cos(da);
    if (!(depth > 1e-9))
        return false;
    const double xi = cos(dec) * sin(da) / depth;
    const double eta = (sin(dec) * cos(s->dec) - cos(dec) * sin(s->dec) * cos(da)) / depth;
    xy[0] = -c * xi + n * eta;
    xy[1] = n * xi + c * eta;
    return true;
}

void sky_deproject(const sky *s, const double xy[2], double *ra, double *dec) {
    double xi, eta;
    to_plane(s, xy, &xi, &eta);
    const double along = cos(s->dec) - eta * sin(s->dec);
    *ra = fmod(s->ra + atan2(xi, along) + 4 * M_PI, 2 * M_PI);
    *dec = atan2(sin(s->dec) + eta * cos(s->dec), hypot(xi, along));
}

/* --- the zenith */

/* Zenith distance and position angle of a direction, the zenith as a unit vector of the frame in
 * which the pointing is (ra, dec). */
static void look(sky *s, const double zenith[3]) {
    const double ca = cos(s->ra), sa = sin(s->ra), cd = cos(s->dec), sd = sin(s->dec);
    const double along = cd * ca * zenith[0] + cd * sa * zenith[1] + sd * zenith[2];
    const double east = -sa * zenith[0] + ca * zenith[1];
    const double north = -sd * ca * zenith[0] - sd * sa * zenith[1] + cd * zenith[2];
    s->zenith = atan2(hypot(east, north), along);
    s->parallactic = atan2(east, north);
}

void sky_from_hour_angle(sky *s, double hour_angle, double latitude) {
    const double meridian = s->ra + hour_angle; /* right ascension of the zenith */
    const double zenith[3] = {cos(latitude) * cos(meridian), cos(latitude) * sin(meridian),
                              sin(latitude)};
    s->hour_angle = hour_angle;
    look(s, zenith);
}

/* Rows of the matrix from ICRS to the frame of the date whose pole is the celestial intermediate
 * pole without nutation (IAU 2006 precession, to the third order; s = -X Y/2). */
static void precession(double centuries, double m[3][3]) {
    const double t = centuries;
    const double x = (2004.191898 * t - 0.4297829 * t * t - 0.19861834 * t * t * t) * ARCSEC;
    const double y = (-0.025896 * t - 22.4072747 * t * t + 0.00190059 * t * t * t) * ARCSEC;
    const double a = 1 / (1 + sqrt(1 - x * x - y * y)), turn = -x * y / 2;
    const double rows[3][3] = {{1 - a * x * x, -a * x * y, -x},
                               {-a * x * y, 1 - a * y * y, -y},
                               {x, y, sqrt(1 - x * x - y * y)}};
    for (int i = 0; i < 3; i++) { /* about the pole by -s */
        m[0][i] = rows[0][i] * cos(turn) - rows[1][i] * sin(turn);
        m[1][i] = rows[0][i] * sin(turn) + rows[1][i] * cos(turn);
        m[2][i] = rows[2][i];
    }
}

void sky_from_time(sky *s, double jd, double longitude, double latitude) {
    const double days = jd - 2451545.0;
    const double rotation = 2 * M_PI * fmod(0.7790572732640 + 1.00273781191135448 * days, 1);
    const double meridian = rotation + longitude;
    const double local[3] = {cos(latitude) * cos(meridian), cos(latitude) * sin(meridian),
                             sin(latitude)};
    const double here[3] = {cos(s->dec) * cos(s->ra), cos(s->dec) * sin(s->ra), sin(s->dec)};
    double m[3][3], zenith[3] = {0}, date[3] = {0};
    precession(days / 36525, m);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            zenith[k] += m[i][k] * local[i];
            date[i] += m[i][k] * here[k];
        }
    look(s, zenith);
    s->hour_angle = remainder(meridian - atan2(date[1], date[0]), 2 * M_PI);
}

/* --- what people write */

/* Days of a month of the Gregorian calendar; 0: no such month. */
static int month_days(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month < 1 || month > 12 ? 0 : days[month - 1] + (month == 2 && leap);
}

/* "hh:mm", "hh:mm:ss" or "hh:mm:ss.s" as seconds, and where it ends; NULL: no time of a day. The
 * second 60 is there at the end of a day alone, where leap seconds are. */
static const char *read_clock(const char *text, double *seconds) {
    const int hour = decimal_digits(text, 2);
    const int minute = hour >= 0 && text[2] == ':' ? decimal_digits(text + 3, 2) : -1;
    double second = 0;
    if (minute < 0)
        return NULL;
    text += 5;
    if (*text == ':') {
        if (decimal_digits(text + 1, 2) < 0)
            return NULL;
        second = decimal_digits(text + 1, 2);
        text += 3;
        if (*text == '.') {
            const size_t n = strspn(text + 1, "0123456789");
            second += n > 0 ? strtod(text, NULL) : 0;
            text += 1 + n;
        }
    }
    *seconds = 3600. * hour + 60. * minute + second;
    const bool last = hour == 23 && minute == 59;
    return hour <= 23 && minute <= 59 && second < (last ? 61 : 60) ? text : NULL;
}

bool sky_read_time(const char *text, double *jd) {
    double seconds = 0;
    const int year = decimal_digits(text, 4);
    const int month = year >= 1900 && text[4] == '-' ? decimal_digits(text + 5, 2) : -1;
    const int day = month >= 1 && text[7] == '-' ? decimal_digits(text + 8, 2) : -1;
    if (day < 1 || day > month_days(year, month))
        return false;
    text += 10;
    if (*text == 'T' || *text == ' ') {
        text = read_clock(text + 1, &seconds);
        if (text == NULL)
            return false;
    }
    text += *text == 'Z';
    if (*text != '\0')
        return false;
    const int a = (14 - month) / 12, y = year + 4800 - a, m = month + 12 * a - 3;
    const int number = day + (153 * m + 2) / 5 + 365 * y + y / 4 - y / 100 + y / 400 - 32045;
    *jd = number - 0.5 + seconds / 86400;
    return true;
}

bool sky_read_angle(const char *text, bool is_hours, double *angle) {
    double part[3] = {0, 0, 0}, unit = DEGREE;
    int n = 0;
    while (isspace((unsigned char)*text))
        text++;
    const bool negative = *text == '-';
    text += *text == '-' || *text == '+';
    for (const char *p = text; n < 3; p++) {
        const size_t length = decimal_length(p);
        if (length == 0 || !(isdigit((unsigned char)*p) || *p == '.'))
            return false;
        part[n++] = strtod(p, NULL);
        if (p[length] == ':' && strspn(p, "0123456789") != length) /* 10.5:30 */
            return false;
        if (n > 1 && strspn(p, "0123456789.") != length) /* 10:3e1 */
            return false;
        text = p += length;
        if (*p != ':')
            break;
    }
    if (n > 1)
        unit = is_hours ? 15 * DEGREE : DEGREE;
    while (isspace((unsigned char)*text))
        text++;
    if (n == 1 && is_hours && strcmp(text, "h") == 0)
        unit = 15 * DEGREE;
    else if (*text != '\0' && (n > 1 || strcmp(text, "deg") != 0))
        return false;
    if (part[1] >= 60 || part[2] >= 60)
        return false;
    *angle = (part[0] + part[1] / 60 + part[2] / 3600) * unit * (negative ? -1 : 1);
    return isfinite(*angle);
}
