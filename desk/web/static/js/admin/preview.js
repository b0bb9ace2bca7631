// The preview beside the form of a site: what customers will see of what is
// entered, before it is saved. The fields of the colour follow each other.

import { setAttr, setText } from '../core/dom.js';
import { followLogo } from './logo.js';
import { initials } from '../core/message-draw.js';
import { accentOf, contrast, parse } from '../core/theme.js';

const white = [255, 255, 255];

/**
 * What becomes of a colour in the light theme, null if it is taken as it is, or is none. Pure.
 * @param {string} colour
 * @returns {{ratio: string, shown: string}|null} ratio: its contrast with white, with one digit
 */
export function adapted(colour) {
	const shown = accentOf(colour, false)?.accent;
	if (!shown || shown === colour.toLowerCase()) return null;
	return { ratio: (Math.floor(contrast(parse(colour), white) * 10) / 10).toFixed(1), shown };
}

/** @param {HTMLElement} aside data-adapted says what becomes of a colour @param {HTMLFormElement} form */
export function preview(aside, form) {
	const { color, color_pick: pick, name, greeting, consent, side, call_text_0: call } = form.elements;
	const shows = (what) => aside.querySelector(`[data-show="${what}"]`);
	const optional = (what, text) => {
		setText(shows(what), text);
		shows(what).hidden = text === '';
	};
	const dark = matchMedia('(prefers-color-scheme: dark)');
	const draw = () => {
		const title = name.value.trim();
		setText(shows('initials'), initials(title));
		setText(shows('name'), title);
		optional('greeting', greeting.value.trim());
		optional('consent', consent.value.trim());
		optional('call', call.value.trim());
		setAttr(shows('button'), 'data-side', side.value || 'right');
		const colours = accentOf(color.value.trim(), dark.matches);
		for (const property of ['accent', 'accent-soft', 'on-accent', 'own', 'on-own']) {
			if (colours) aside.style.setProperty(`--${property}`, colours[property]);
			else aside.style.removeProperty(`--${property}`);
		}
		const other = adapted(color.value.trim());
		optional('adapted', other ? aside.dataset.adapted.replace('{ratio}', other.ratio).replace('{colour}', other.shown) : '');
	};
	color.addEventListener('input', () => { if (parse(color.value.trim())) pick.value = color.value.trim(); });
	pick.addEventListener('input', () => { color.value = pick.value; });
	followLogo(form, shows('logo'));
	form.addEventListener('input', draw);
	dark.addEventListener('change', draw);
	draw();
	aside.hidden = false;
}
