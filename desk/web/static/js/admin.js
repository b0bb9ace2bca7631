// The pages of the administration work without scripts. This one adds comfort: tabs in a long form, a preview of what
// customers will see, and a question before something that was entered is lost. The page is not drawn before this script
// has run (blocking="render"): a long form that becomes tabs would move under the hand.

import { preview } from './admin/preview.js';
import { makeTabs } from './admin/tabs.js';
import { guard } from './admin/unsaved.js';

// On phones the menu is one line, which begins with the first page.
const nav = document.querySelector('.manage-nav');
const current = nav?.querySelector('[aria-current]');
if (current) nav.scrollLeft += current.getBoundingClientRect().left + current.offsetWidth / 2 - nav.clientWidth / 2;
for (const form of document.querySelectorAll('form[data-guard]')) guard(form);
for (const form of document.querySelectorAll('form[data-tabs]')) makeTabs(form);
for (const aside of document.querySelectorAll('[data-preview]')) preview(aside, aside.parentNode.querySelector('form'));
