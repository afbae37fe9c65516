#include "params_words.h"

#include "params_load.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Words in lower case, without underscores and hyphens, in the singular; a key of NULL is not
 * modelled. The first entry of a table that knows a word gives the hint. */
static const struct {
    const param_table *table;
    const char *words; /* between blanks */
    const char *key, *note;
} known[] = {
    {&params_main_table, " actuator nact nactuator nxact nactu actuatorsacros nactuatorsacros ",
     "dm.nssp", "it counts subapertures across; the actuators are at their corners, one more"},
    {&params_main_table, " subaperture nsub nsubap nsubx nxsub nsubaperture nlenslet lenslet ",
     "dm.nssp", "it counts subapertures across"},
    {&params_main_table, " pitch dmpitch actuatorpitch ", "dm.nssp",
     "the pitch is telescope.diameter over it"},
    {&params_main_table, " d diam telescopediameter aperture primary pupil pupildiameter ",
     "telescope.diameter", "of the annulus that telescope.pupil, spiders and segments cut"},
    {&params_main_table,
     " ob cob cobs centralobscuration obscurationratio centralobstruction obstruction secondary "
     "pupil ",
     "telescope.obscuration", "a fraction of the diameter"},
    {&params_main_table, " spider vane strut ", "telescope.spiders.number", "with width and angle"},
    {&params_main_table, " segment hexagon ", "telescope.segments.shape", "with size and gap"},
    {&params_main_table, " pupilmap pupilmask aperturemask pupilfile mask ", "telescope.pupil",
     "a FITS image of the amplitude"},
    {&params_main_table, " pupil phasemap opd ncpa aberration wavefronterror ", "errors.static_map",
     "a map over the pupil; errors.static_rms without one"},
    {&params_main_table, " zenithangle zenithdistance elevation airmas za ", "telescope.zenith",
     "an angle from the zenith"},
    {&params_main_table, " latency lag framedelay loopdelay delaystep loopdelaystep servolag ",
     "loop.delay", "in seconds, not in frames"},
    {&params_main_table, " gain loopgain integratorgain ", "loop.gain",
     "of a closed loop, with loop.type; errors.loop_gain is of the image's motion alone"},
    {&params_main_table, " vibration imagemotion tiptilt tiptiltjitter ", "errors.jitter",
     "rms along x and y"},
    {&params_main_table, " vibration ", "errors.windshake", "rms along x and y"},
    {&params_main_table, " vibration psd spectrum ", "errors.jitter_psd",
     "errors.vibrations of lines"},
    {&params_main_table, " lambda sciencewavelength ", "psf.wavelengths", ""},
    {&params_main_table, " band filter passband broadband ", "psf.bands",
     "psf.wavelengths for single wavelengths"},
    {&params_main_table, " ensquaredenergy encircledenergy ee eebox ", "psf.ee_boxes",
     "sides of boxes in mas"},
    {&params_main_table, " ng lg star guidestar wf wfs naturalstar ", "sensors", ""},
    {&params_main_table, " laser ", "sensors.lgs_return", ""},
    {&params_main_table, " science source sciencetarget fov fieldofview ", "targets", ""},
    {&params_main_table, " layer cn2 turbulence profile ", "atmosphere.profiles", ""},
    {&params_main_table, " seeing r0 friedparameter ", "atmosphere.profiles.seeing",
     "of each profile; or r0"},
    {&params_sensor_table, " subaperture nsub nsubap nsubx nxsub nsubaperture nlenslet lenslet ",
     "sensors.nssp", ""},
    {&params_sensor_table, " position location coordinate xy offset po ", "sensors.direction",
     "[x, y] in arcsec"},
    {&params_sensor_table, " mag gmag rmag vmag ", "sensors.magnitude", ""},
    {&params_sensor_table, " flux photon nphoton sensorflux ", "sensors.magnitude",
     "of an NGS; lgs_return of an LGS"},
    {&params_sensor_table, " photon ", "sensors.throughput", ""},
    {&params_sensor_table, " photon ", "sensors.frame_time", ""},
    {&params_sensor_table, " height guidestarheight lgsheight alt ", "sensors.altitude", ""},
    {&params_sensor_table, " readnoise readoutnoise sigmaron detectornoise ", "sensors.ron", ""},
    {&params_sensor_table, " pixelscale pixelsize platescale ", "sensors.pixel", ""},
    {&params_sensor_table, " fp fps framerate loopfrequency sensorframerate frequency rate ",
     "sensors.frame_rate", ""},
    {&params_sensor_table, " exposuretime integrationtime exptime ", "sensors.frame_time", ""},
    {&params_sensor_table, " lambda wave sensorwavelength ", "sensors.wavelength", ""},
    {&params_sensor_table, " qe efficiency transmission ", "sensors.throughput", ""},
    {&params_profile_table, " cn2 cn2weight weight fraction fractionalcn2 ",
     "atmosphere.profiles.layers.fraction", ""},
    {&params_profile_table, " height cn2height altitude h ", "atmosphere.profiles.layers.altitude",
     ""},
    {&params_profile_table, " wind windspeed speed ", "atmosphere.profiles.layers.wind_speed", ""},
    {&params_profile_table, " winddirection direction winddir ",
     "atmosphere.profiles.layers.wind_direction", ""},
    {&params_profile_table, " outerscale l0 ", "atmosphere.profiles.layers.L0", ""},
};

/* Keys of params_main_table in earlier versions, with the value that is still what is done. */
static const struct {
    const char *path, *kept, *note;
} removed[] = {
    {"compute.tlr_order", "sensor", "measurements are ordered sensor by sensor"},
};

enum { KNOWN = sizeof known / sizeof *known, WORD = 40 };

/* " word " as the table has it; false for one that is too long. */
static bool normal(const char *word, char out[WORD + 3]) {
    size_t n = 0;
    out[n++] = ' ';
    for (; *word != '\0'; word++) {
        if (n > WORD || *word == ' ')
            return false;
        if (*word != '_' && *word != '-')
            out[n++] = (char)tolower((unsigned char)*word);
    }
    n -= n > 2 && out[n - 1] == 's';
    out[n++] = ' ';
    out[n] = '\0';
    return n > 2;
}

/* The key as a file states it in its table. */
static const char *stated(const param_table *t, const char *key) {
    static const char *const before[] = {"sensors.", "atmosphere.profiles."};
    const int i = t == &params_sensor_table ? 0 : t == &params_profile_table ? 1 : -1;
    return i >= 0 ? key + strlen(before[i]) : key;
}

void params_word_hint(const param_table *t, const char *key, char *out, size_t n) {
    char word[WORD + 3];
    out[0] = '\0';
    if (!normal(key, word))
        return;
    for (int i = 0; i < KNOWN; i++) {
        if (known[i].table != t || strstr(known[i].words, word) == NULL)
            continue;
        if (known[i].key == NULL)
            snprintf(out, n, "expected no such key: %s", known[i].note);
        else
            snprintf(out, n, "did you mean %s?%s%s%s", stated(t, known[i].key),
                     *known[i].note ? " (" : "", known[i].note, *known[i].note ? ")" : "");
        return;
    }
}

status params_read_removed(const param_table *t, const char *path, const char *where,
                           const ynode *value, params *par, bool *was) {
    *was = false;
    for (size_t i = 0; i < sizeof removed / sizeof *removed && t == &params_main_table; i++) {
        if (strcmp(path, removed[i].path) != 0)
            continue;
        *was = true;
        if (value->kind == YAML_TREE_SCALAR && strcmp(value->text, removed[i].kept) == 0)
            return params_note(par, "%s: no longer a parameter, %s: remove it", where,
                               removed[i].note);
        return yaml_tree_fail(value, where, "no longer a parameter, %s: remove it",
                              removed[i].note);
    }
    return MOAO_OK;
}

bool params_word(const char *word, int i, const char **key, const char **note) {
    char w[WORD + 3];
    if (!normal(word, w))
        return false;
    for (int k = 0; k < KNOWN; k++) {
        if (strstr(known[k].words, w) == NULL || i-- > 0)
            continue;
        *key = known[k].key;
        *note = known[k].note;
        return true;
    }
    return false;
}
