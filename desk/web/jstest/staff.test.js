import test from 'node:test';
import assert from 'node:assert/strict';
import { free, Staff } from '../static/js/console/staff.js';

const agent = (id, o = {}) => ({ id, name: id, role: 'agent', serves: true, status: 'online', accepting: true, active: 0, capacity: 5, groups: [], online: true, ...o });

test('what the welcome does not say stays careful', () => {
	const staff = new Staff({ id: 'me', name: 'Me' });
	staff.welcome({ me: { id: 'me', name: 'Me' } });
	assert.equal(staff.can('serve'), true);
	assert.equal(staff.can('override'), false);
	assert.equal(staff.status, null);
	staff.welcome({ me: { id: 'me', name: 'Me', perms: ['read_others'] }, status: { status: 'busy', accepting: false, active: 2, capacity: 3 } });
	assert.equal(staff.can('serve'), false);
	assert.equal(staff.status.active, 2);
});

test('colleagues: those who are there and may answer, the free first, without oneself, by name', () => {
	const staff = new Staff({ id: 'me', name: 'Me' });
	staff.directory({ agents: [agent('me'), agent('off', { online: false, status: 'offline' }), agent('full', { active: 5 }), agent('away', { status: 'away' }), agent('gone', { online: false }), agent('out', { status: 'offline' }), agent('ending', { status: 'finishing' }), agent('auditor', { serves: false }), agent('b', { active: 1 }), agent('a', { active: 1 })] });
	assert.deepEqual(staff.colleagues().map((a) => a.id), ['a', 'b', 'full', 'away']);
	assert.deepEqual(staff.colleagues(' FU ').map((a) => a.id), ['full']);
	assert.deepEqual([...staff.agents.values()].map(free), [true, false, false, false, false, false, false, true, true, true]);
	staff.directory({ agents: [agent('a', { skills: ['vat forms'], languages: ['zh'] }), agent('b', { skills: ['returns'] }), agent('zoe')] });
	const nameOf = (tag) => ({ zh: 'Chinese' })[tag];
	for (const [query, ids] of [['VAT', ['a']], ['returns', ['b']], ['zh', ['a']], ['chin', ['a']], ['z', ['a', 'zoe']], ['moon', []], ['', ['a', 'b', 'zoe']]]) {
		assert.deepEqual(staff.colleagues(query, nameOf).map((a) => a.id), ids, query);
	}
	assert.equal(free(agent('none', { capacity: 0 })), false);
	assert.equal(free(agent('looks', { accepting: false })), false);
});

test('news of an agent change the directory and the own status', () => {
	const staff = new Staff({ id: 'me', name: 'Me' });
	staff.apply(agent('x', { status: 'online', idle: true, skills: ['returns'] }));
	staff.apply(agent('x', { status: 'away' })); // says all there is: what is absent has ended
	assert.deepEqual([staff.agents.get('x').idle, staff.agents.get('x').skills], [undefined, undefined]);
	staff.apply(agent('me', { active: 3 }));
	assert.equal(staff.agents.get('x').status, 'away');
	assert.deepEqual(staff.status, { status: 'online', accepting: true, active: 3, capacity: 5 });
	staff.setStatus({ status: 'away', accepting: false });
	assert.deepEqual([staff.status.status, staff.status.active], ['away', 3]);
});

test('why this agent is given no chats', () => {
	const staff = new Staff({ id: 'me', name: 'Me' });
	assert.equal(staff.noChats(), ''); // not known yet
	staff.welcome({ me: { perms: ['serve'] }, status: { status: 'online', accepting: true, active: 0, capacity: 5 } });
	assert.equal(staff.noChats(), '');
	staff.setStatus({ status: 'busy', accepting: true }); // that is the status, not the account
	assert.equal(staff.noChats(), '');
	staff.apply(agent('me', { status: 'away', idle: true }));
	assert.equal(staff.noChats(), 'idle');
	staff.setStatus({ status: 'away', accepting: true });
	assert.equal(staff.noChats(), 'away');
	staff.apply(agent('me', { status: 'finishing' }));
	assert.equal(staff.noChats(), 'finishing');
	staff.apply(agent('me', { accepting: false }));
	assert.equal(staff.noChats(), 'choice');
	staff.apply(agent('me', { capacity: 0 }));
	assert.equal(staff.noChats(), 'capacity');
	staff.welcome({ me: { perms: ['read_others'] }, status: { status: 'online', accepting: false, active: 0, capacity: 5 } });
	assert.equal(staff.noChats(), ''); // an auditor answers nobody
});
