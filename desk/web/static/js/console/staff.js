// Who this agent is and may do, and who else is there: the directory behind the
// status switch and the transfer dialog. Pure data, no page.

const order = { online: 0, busy: 1, away: 2, offline: 3 };

export class Staff {
	/** @param {{id: string, name: string}} me */
	constructor(me) {
		this.me = me;
		this.perms = new Set(['serve']); // until the welcome says more
		this.status = null; // {status, accepting, active, capacity}; null while the server does not tell
		this.agents = new Map();
		this.groups = [];
		this.sites = []; // keys
	}

	/** Takes what the welcome says about the agent. */
	welcome(d) {
		this.me = { ...this.me, ...d.me };
		if (Array.isArray(d.me?.perms)) this.perms = new Set(d.me.perms);
		if (d.status) this.status = d.status;
	}

	can(permission) {
		return this.perms.has(permission);
	}

	/** Takes the answer to `status`. */
	setStatus(status) {
		const { idle, ...held } = this.status ?? {}; // the answer says idle only where it is so
		this.status = { ...held, ...status };
	}

	/** Takes the answer to `agents`; it replaces what was held. */
	directory({ agents = [], groups = [], sites = [] }) {
		this.agents = new Map(agents.map((a) => [a.id, a]));
		Object.assign(this, { groups, sites });
		const own = this.agents.get(this.me.id);
		if (own) this.#own(own);
	}

	/** Takes an ev.agent. */
	apply(agent) {
		this.agents.set(agent.id, agent);
		if (agent.id === this.me.id) this.#own(agent);
	}

	/**
	 * The colleagues who may answer and are there, so that a chat can go to them: the free first, then by state and name.
	 * @param {string} [query] in a name, a skill or a language
	 * @param {(tag: string) => string} [nameOf] a language
	 */
	colleagues(query = '', nameOf = (tag) => tag) {
		const wanted = query.trim().toLocaleLowerCase();
		const said = ({ name = '', skills = [], languages = [] }) => [name, ...skills, ...languages, ...languages.map(nameOf)];
		return [...this.agents.values()]
			.filter((a) => a.id !== this.me.id && a.serves && rank(a) < order.offline && said(a).some((text) => text.toLocaleLowerCase().includes(wanted)))
			.sort((a, b) => Number(free(b)) - Number(free(a)) || rank(a) - rank(b) || load(a) - load(b) || (a.name < b.name ? -1 : 1));
	}

	/** Why this agent is given no chats, as far as the page says so: '' | 'choice' | 'capacity' | 'away' | 'idle' | 'finishing'. */
	noChats() {
		if (!this.status || !this.can('serve')) return '';
		if (!takesChats(this.status)) return this.status.accepting === false ? 'choice' : 'capacity';
		const { status, idle } = this.status;
		if (status === 'finishing') return status;
		if (status !== 'away') return '';
		return idle ? 'idle' : 'away';
	}

	#own({ status, accepting, active, capacity, idle }) {
		this.status = { status, accepting, active, capacity, ...(idle && { idle }) };
	}
}

/** Whether an agent that is online is given chats. */
export function takesChats({ accepting, capacity }) {
	return accepting !== false && capacity !== 0;
}

/** Whether an agent can be given one more chat now. */
export function free(agent) {
	return agent.online !== false && agent.status === 'online' && takesChats(agent) && !(agent.active >= agent.capacity);
}

function rank(agent) {
	return agent.online === false ? order.offline : (order[agent.status] ?? order.offline);
}

function load(agent) {
	return agent.capacity > 0 ? (agent.active ?? 0) / agent.capacity : 0;
}
