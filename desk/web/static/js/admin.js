// The pages of the administration work without scripts. This one adds comfort: tabs in a long form, a preview of what
// customers will see, and a question before something that was entered is lost.

import { preview } from './admin/preview.js';
import { makeTabs } from './admin/tabs.js';
import { guard } from './admin/unsaved.js';

for (const form of document.querySelectorAll('form[data-guard]')) guard(form);
for (const form of document.querySelectorAll('form[data-tabs]')) makeTabs(form);
for (const aside of document.querySelectorAll('[data-preview]')) preview(aside, aside.parentNode.querySelector('form'));
